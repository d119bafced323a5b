"""Load: the trace's gaps scaled, or those of a process, with the means and variations of theory."""

from __future__ import annotations

import math
import tracemalloc
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.inputs.load import Load, shaped, weibull_shape
from costmodel.inputs.traces import Trace, check_trace
from costmodel.inputs.workload import Request

ROWS = [Request(t, 10 + i, 0, 2, (i,), 16) for i, t in enumerate([5.0, 6.0, 6.0, 9.0])]  # 3 gaps in 4 s
OWN = 0.75


def times(load: Load, own_rate: float | None = OWN) -> list[float]:
    return [r.arrival_s for r in shaped(ROWS, load, own_rate)]


def test_own_gaps() -> None:
    assert times(Load(), None) == [0, 1, 1, 4]
    assert times(Load(speedup=2.0), None) == [0, 0.5, 0.5, 2]
    assert times(Load(rate=1.5)) == [0, 0.5, 0.5, 2]  # twice 0.75 requests/s
    assert times(Load(limit=2)) == [0, 1]
    # a mean gap of 4/3 s between one playing and the next
    assert times(Load(repeat=2, limit=3)) == pytest.approx([0, 1, 1, 7 / 3, 10 / 3, 10 / 3])
    assert times(Load(repeat=2, rate=1.5))[4:] == pytest.approx([8 / 3, 19 / 6, 19 / 6, 14 / 3])
    assert [r[1:] for r in shaped(ROWS, Load(rate=3.0), OWN)] == [r[1:] for r in ROWS]


def test_other_gaps() -> None:
    assert times(Load(rate=4.0, process="constant"), None) == [0.25, 0.5, 0.75, 1.0]
    assert times(Load(process="constant")) == pytest.approx([4 / 3, 8 / 3, 4, 16 / 3])
    assert times(Load(process="constant", speedup=2.0)) == pytest.approx([2 / 3, 4 / 3, 2, 8 / 3])
    poisson = Load(process="poisson", rate=3.0, seed=7)
    assert times(poisson) == times(poisson) != times(Load(process="poisson", rate=3.0, seed=8))
    # a seed's gaps keep their proportions at another rate
    assert times(Load(process="poisson", rate=6.0, seed=7)) == pytest.approx([t / 2 for t in times(poisson)])
    assert len(times(Load(process="poisson", rate=3.0, limit=3, repeat=5))) == 15


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rate": 1.0, "speedup": 2.0}, "--rate and --speedup"),
        ({"rate": 0.0}, "--rate must be positive, not 0"),
        ({"rate": math.nan}, "--rate must be positive, not nan"),
        ({"speedup": -1.0}, "--speedup must be positive"),
        ({"process": "possion"}, "unknown --arrivals 'possion'; did you mean 'poisson'?"),
        ({"cv": 2.0}, "--cv goes with --arrivals gamma or weibull, not trace"),
        ({"process": "poisson", "cv": 2.0}, "--cv goes with --arrivals gamma or weibull, not poisson"),
        ({"process": "gamma"}, "--arrivals gamma needs --cv"),
        ({"process": "weibull", "cv": 0.0}, "--cv must be positive"),
        (
            {"process": "weibull", "cv": 1e9},
            "Weibull gaps need a coefficient of variation (--cv) of 0.013 to",
        ),
        ({"process": "onoff", "on_share": 0.5}, "--arrivals onoff needs --on-period"),
        ({"process": "onoff", "on_period_s": 1.0}, "--arrivals onoff needs --on-share"),
        ({"process": "onoff", "on_share": 1.0, "on_period_s": 1.0}, "--on-share must lie between 0 and 1"),
        ({"on_share": 0.5}, "--on-share goes with --arrivals onoff, not trace"),
        ({"on_period_s": 0.5, "process": "poisson"}, "--on-period goes with --arrivals onoff, not poisson"),
        ({"limit": 0}, "--limit must be at least 1, not 0"),
        ({"repeat": 0}, "--repeat must be at least 1, not 0"),
    ],
)
def test_one_message_for_each_mistake(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Load(**values)
    assert said in str(caught.value)


def test_all_mistakes_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Load(rate=-1.0, speedup=1.0, cv=1.0, limit=0)
    assert len(caught.value.problems) == 4


def test_what_a_trace_without_a_rate_cannot_do() -> None:
    for load, said in (
        (Load(rate=1.0), "--rate: the trace has no rate of its own"),
        (Load(repeat=2), "--repeat: the trace has no rate"),
        (Load(process="poisson"), "--arrivals poisson needs --rate"),
        (Load(process="poisson", speedup=2.0), "--arrivals poisson needs --rate"),
    ):
        with pytest.raises(InputError, match=said):
            shaped(ROWS, load, None)
    with pytest.raises(InputError, match="--repeat reads the trace several times"):
        shaped(iter(ROWS), Load(repeat=2), OWN)


# --- against theory -------------------------------------------------------------------------------------


def test_weibull_shapes() -> None:
    # cv^2 = G(1 + 2/k) / G(1 + 1/k)^2 - 1: shape 1 is exponential, 2 is Rayleigh (4/pi - 1),
    # 1/2 has G(5) / G(3)^2 - 1 = 24/4 - 1 = 5, 1/3 has G(7) / G(4)^2 - 1 = 720/36 - 1 = 19
    for shape, squared in ((1, 1.0), (2, 4 / math.pi - 1), (1 / 2, 5.0), (1 / 3, 19.0)):
        assert weibull_shape(math.sqrt(squared)) == pytest.approx(shape, rel=1e-9)


def moments(process: str, cv: float) -> tuple[float, float]:
    """Second and fourth moment of gaps of mean 1."""
    if process == "weibull":
        k = weibull_shape(cv)
        scale = 1 / math.gamma(1 + 1 / k)
        return scale**2 * math.gamma(1 + 2 / k), scale**4 * math.gamma(1 + 4 / k)
    k = 1 / cv**2
    return (k + 1) / k, (k + 1) * (k + 2) * (k + 3) / k**3


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("process", "cv"),
    [("poisson", 1.0), ("gamma", 0.5), ("gamma", 2.0), ("weibull", 0.5), ("weibull", 1.0), ("weibull", 2.0)],
)
def test_gaps_have_their_mean_and_variation(process: str, cv: float, seed: int) -> None:
    count, rate = 200_000, 8.0
    load = Load(rate=rate, process=process, cv=None if process == "poisson" else cv, seed=seed)
    rows = (Request(0.0, 1, 0, 1) for _ in range(count))
    arrivals = [0.0, *(r.arrival_s for r in shaped(rows, load))]
    gaps = [(b - a) * rate for a, b in pairwise(arrivals)]
    second, fourth = moments(process, cv)
    assert second == pytest.approx(1 + cv**2, rel=1e-9)
    # within 4 standard errors, which theory gives
    assert abs(sum(gaps) / count - 1) < 4 * cv / math.sqrt(count)
    assert abs(sum(g * g for g in gaps) / count - second) < 4 * math.sqrt((fourth - second**2) / count)


def test_bursts_keep_the_mean_rate() -> None:
    share, period, rate, count = 0.25, 2.0, 10.0, 400_000
    load = Load(rate=rate, process="onoff", on_share=share, on_period_s=period, seed=3)
    rows = (Request(0.0, 1, 0, 1) for _ in range(count))
    arrivals = [r.arrival_s for r in shaped(rows, load)]
    # Some 5,000 cycles of 8 s on average. On-time is u = count share / rate; the off-time beside it has mean
    # 3 u and, as a sum of exponentials of mean 6 s that come every 2 s of it, variance (u / 2) 2 6^2 = 36 u.
    on = count * share / rate
    error = math.sqrt(36 * on + (count * (share / rate) ** 2) * 16)
    assert abs(arrivals[-1] - count / rate) < 4 * error
    gaps = [b - a for a, b in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    assert sum((g - mean) ** 2 for g in gaps) / len(gaps) / mean**2 > 2


def test_memory_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = "".join(f"{i / 8},{1 + i % 999},{1 + i % 77}\n" for i in range(20_000))
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows, encoding="utf-8")
    own = check_trace(path).rate
    assert own == pytest.approx(8)
    peaks = []
    for repeat in (1, 5):
        tracemalloc.start()
        played = shaped(Trace(path), Load(rate=100.0, repeat=repeat), own)
        last = max(islice((r.arrival_s for r in played), 20_000 * repeat))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert last == pytest.approx((20_000 * repeat - 1) / 100)
    assert max(peaks) < 400_000 and peaks[1] < 1.5 * peaks[0]
