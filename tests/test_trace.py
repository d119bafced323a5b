"""Traces: constant memory, one clear message for each mistake, and whether their load varies."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.inputs.traces import Notes, read_trace, trace_workload, varies
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload

SHARED = Path(__file__).parents[2] / "shared" / "traces"
HEAD = "arrival_s,prompt_tokens,output_tokens\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a trace and return its path."""

    def to_file(text: str) -> Path:
        path = tmp_path / "trace.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return to_file


def test_rows_become_requests(write: Any) -> None:
    path = write(
        "output_tokens,cached_tokens,arrival_s,prompt_tokens,note\n3,16,0.5,20,x\n1,0, 0.5 ,7,\n\n2,1,1e1,9,y\n"
    )
    # equal times are legal; columns come in any order, others are passed over, and so are blank lines
    assert list(read_trace(path)) == [Request(0.5, 4, 16, 3), Request(0.5, 7, 0, 1), Request(10.0, 8, 1, 2)]
    assert next(iter(read_trace(str(path)))).isl == 20
    assert list(read_trace(write(HEAD + "0,5,1\n"))) == [Request(0.0, 5, 0, 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; expected a header with arrival_s, prompt_tokens, output_tokens"),
        ("\n", "is empty"),
        (HEAD, "has a header but no request"),
        (HEAD + "1,5,1\n0.5,5,1\n", "line 3: arrival_s 0.5 comes after 1; sort the trace by arrival"),
        (HEAD + "nan,5,1\n", "line 2: arrival_s 'nan' is not a time"),
        (HEAD + "inf,5,1\n", "line 2: arrival_s 'inf'"),
        (HEAD + "-1,5,1\n", "line 2: arrival_s '-1'"),
        (HEAD + "0,-5,1\n", "line 2: prompt_tokens '-5' is not a whole number of at least 1"),
        (HEAD + "0,0,1\n", "prompt_tokens '0'"),
        (HEAD + "0,5.0,1\n", "prompt_tokens '5.0'"),
        (HEAD + "0,5,0\n", "output_tokens '0'"),
        (HEAD + "0,many,1\n", "prompt_tokens 'many'"),
        (HEAD + "soon,5,1\n", "arrival_s 'soon'"),
        (HEAD + "0,5,1\n1,5\n", "line 3: 2 cells, the header has 3"),
        (HEAD + '"0,5",5,1\n', "arrival_s '0,5'"),  # a decimal comma
        (
            "arrivals,prompt_tokens,output_tokens\n0,5,1\n",
            "missing column 'arrival_s'; nearest present: 'arrivals'",
        ),
        (HEAD[:-1] + ",cached_tokens\n0,5,1,5\n", "cached_tokens 5 leaves no uncached token of 5"),
        (HEAD[:-1] + ",cached_tokens\n0,5,1,-1\n", "cached_tokens '-1'"),
    ],
)
def test_one_message_for_each_mistake(write: Any, text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(InputError) as caught:
        list(read_trace(path))
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_all_problems_of_a_row_and_of_the_header_at_once(write: Any) -> None:
    with pytest.raises(InputError) as caught:
        list(read_trace(write(HEAD + "x,y,z\n")))
    assert all(text in str(caught.value) for text in ("'x'", "'y'", "'z'"))
    with pytest.raises(InputError) as caught:
        list(read_trace(write("a,b,c\n1,2,3\n")))
    assert all(text in str(caught.value) for text in ("'arrival_s'", "'prompt_tokens'", "'output_tokens'"))


def test_no_file_a_folder_and_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such trace file"):
        list(read_trace(tmp_path / "none.csv"))
    with pytest.raises(InputError, match="is a folder"):
        list(read_trace(tmp_path))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(HEAD.encode() + b"0,5,1\n\xff\xfe\n")
    with pytest.raises(InputError, match="not UTF-8"):
        list(read_trace(binary))


def test_good_rows_come_before_a_bad_one(write: Any) -> None:
    rows = read_trace(write(HEAD + "0,5,1\n1,5,1\nx,5,1\n"))
    assert [next(rows).arrival_s, next(rows).arrival_s] == [0, 1]
    with pytest.raises(InputError):
        next(rows)


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    peaks = []
    for count in (2_000, 100_000):
        path = tmp_path / f"{count}.csv"
        with path.open("w", encoding="utf-8") as file:
            file.write(HEAD)
            file.writelines(f"{i / 8},{1 + i % 999},{1 + i % 77}\n" for i in range(count))
        tracemalloc.start()
        assert sum(1 for _ in read_trace(path)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert path.stat().st_size > 1_200_000
    assert max(peaks) < 300_000 and peaks[1] < 1.5 * peaks[0]


# --- as a workload --------------------------------------------------------------------------------------


def test_a_trace_replays_at_its_own_rate(write: Any) -> None:
    rows = "".join(f"{10 + i / 4},{100 + i},{2}\n" for i in range(9))
    path = write(HEAD + rows)
    workload = trace_workload(path, Slo(1.0))
    assert workload.rate == 4 and workload.arrivals.cv == 0 and workload.slo == Slo(1.0)
    assert [r.arrival_s for r in workload.sample(3, 1)] == [0, 0.25, 0.5]
    assert "all of 9 requests" in workload.chosen
    part = trace_workload(path, Slo(), count=5)
    assert len(part.requests) == 5 and "the first 5 of 9" in part.chosen
    with pytest.raises(InputError):  # the rest is read all the same
        trace_workload(write(HEAD + rows + "x,1,1\n"), Slo(), count=5)
    for short in ("0,5,1\n", "0,5,1\n0,6,1\n"):
        with pytest.raises(InputError, match="at least two requests at different times"):
            trace_workload(write(HEAD + short), Slo())


def test_columns_that_are_not_read_are_said(write: Any) -> None:
    path = write("user,arrival_s,prompt_tokens,output_tokens,,hit_blocks\na,0,5,1,,3\nb,1,5,1,,3\n")
    notes = Notes()
    rows = read_trace(path, notes=notes)
    assert next(rows) == Request(0.0, 5, 0, 1) and notes.unread == ["user", "number 5", "hit_blocks"]
    chosen = trace_workload(path, Slo()).chosen
    assert chosen == f"all of 2 requests of {path}; columns not read: user, number 5, hit_blocks"
    assert "not read" not in trace_workload(write(HEAD + "0,5,1\n1,5,1\n"), Slo()).chosen


def test_gap_variation_by_hand(write: Any) -> None:
    # gaps 1, 3, 1, 3: mean 2, standard deviation 1
    workload = trace_workload(write(HEAD + "".join(f"{t},5,1\n" for t in (0, 1, 4, 5, 8))), Slo())
    assert (workload.rate, workload.arrivals.cv) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        (Arrivals(5.0), False),
        (Arrivals(5.0, cv=0.0), False),
        (Arrivals(5.0, cv=1.2), False),
        (Arrivals(5.0, cv=3.0), True),
        (Arrivals(5.0, on_share=0.5, on_period_s=60.0), True),
    ],
)
def test_varies(arrivals: Arrivals, expected: bool) -> None:
    # Of 66 windows; with the 13 of a trace's first 4,000 requests, every seventh calm one is refused as well.
    own = Workload("own", arrivals, Lengths(1000, 0.8), 0, Lengths(100, 0.7), Slo(), "here")
    for seed in range(4):
        assert varies(own.sample(20_000, seed)) is expected


def test_lengths_that_come_in_runs_vary_though_arrivals_are_poisson() -> None:
    random, clock = Random(1), Arrivals(5.0).times(Random(2))
    rows, tokens = [], 1000
    for _ in range(6000):
        if random.random() < 1 / 200:
            tokens = random.choice([200, 1000, 5000])
        rows.append(Request(next(clock), tokens, 0, 1))
    assert varies(rows)
    random.shuffle(lengths := [r.uncached_tokens for r in rows])
    assert not varies([r._replace(uncached_tokens=n) for r, n in zip(rows, lengths)])


def test_too_short_a_trace_shows_nothing() -> None:
    own = Workload("own", Arrivals(5.0), Lengths(1000, 0.8), 0, Lengths(100, 0.7), Slo(), "here")
    assert varies(own.sample(500, 1))


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared traces here")
def test_public_traces() -> None:
    # rows, requests/s and variation of gaps as counted beside the traces
    for name, rows, rate, cv in (
        ("azure2023_code", 8819, 2.5664, 13.1513),
        ("azure2023_conv", 19366, 5.5301, 1.0942),
        ("mooncake_synthetic", 3993, 3.906, 1.0113),
    ):
        path = SHARED / f"{name}.csv"
        assert sum(1 for _ in read_trace(path)) == rows
        whole = trace_workload(path, Slo(), count=10**6)
        assert whole.rate == pytest.approx(rate, rel=1e-3)
        assert whole.arrivals.cv == pytest.approx(cv, rel=1e-3)
        assert whole.bursty  # gaps of the last two look Poisson; their work does not
