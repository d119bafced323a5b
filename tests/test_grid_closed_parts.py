"""Parts of the closed form over arrays, each against hand arithmetic, a formula of the book or the scalar code."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from costmodel.evaluate import waits as scalar
from costmodel.evaluate.sharing import Sharing as ScalarSharing
from costmodel.formulas.waiting import mg1_wait, mmc_wait
from costmodel.grid.classes import distinct
from costmodel.grid.points import Prompts
from costmodel.grid.prompts import _SLAB, PromptTable, _slabs
from costmodel.grid.sharing import Sharing, _partners, _Prompts, step_sizes
from costmodel.grid.stations import fixed_point
from costmodel.grid.steps import ArraySteps
from costmodel.grid.verdict import verdicts
from costmodel.grid.waits import Moments, Queues, mean_wait, moments
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import StepTimes
from costmodel.serving.work import Chunk


def columns(*values: Any) -> list[Any]:
    return [np.atleast_1d(np.asarray(value, float)) for value in values]


# --- waits ------------------------------------------------------------------------------------------------------


def test_exponential_services_wait_as_erlang_says() -> None:
    # two servers, one arrival a second, services of 1 s: a third of the arrivals wait 1 s on average
    queues = Queues(*columns([1, 2, 0.5], [1, 1, 1], [2, 1, 4]))
    found = mean_wait(queues, Moments(*columns([1, 1, 1.5], [1, 1, 1])))
    assert found[0] == pytest.approx(1 / 3, rel=1e-14)
    assert found[1] == pytest.approx(1.0, rel=1e-14)  # M/M/1, half busy: 0.5 / (1 - 0.5)
    assert found[2] == pytest.approx(mmc_wait(rate=2.0, service=1.5, servers=4), rel=1e-14)


def test_one_server_under_poisson_arrivals_is_khinchines() -> None:
    found = mean_wait(Queues(*columns(2.0, 1.0, 1.0)), Moments(*columns(1.5, 0.3)))
    assert found[0] == pytest.approx(mg1_wait(rate=0.5, service=1.5, service_scv=0.3), rel=1e-14)


def test_other_gaps_wait_as_in_the_scalar_code() -> None:
    draw = np.random.default_rng(1)
    count = 400
    servers = draw.integers(1, 12, count)
    scv = draw.choice([0.25, 0.9999999, 1.0, 2.0, 9.0, 0.0], count)
    busy = draw.choice([0.1507, 0.5003, 0.8001, 0.9502, 0.9901], count)
    service, spread = np.exp(draw.uniform(-7, 3, count)), draw.choice([0.0, 0.4, 3.0], count)
    gap = service / (busy * servers)
    found = mean_wait(Queues(gap, scv, servers.astype(float)), Moments(service, spread))
    wanted = [
        scalar.mean_wait(scalar.Gaps(*map(float, pair)), scalar.Moments(float(s), float(v)), int(c))
        for *pair, s, v, c in zip(gap, scv, service, spread, servers)
    ]
    assert found == pytest.approx(wanted, rel=1e-10, abs=1e-17)


@pytest.mark.parametrize(("servers", "busy"), [(2000, 0.0015), (2000, 0.9503), (600, 0.9701), (1100, 0.5)])
@pytest.mark.parametrize("scv", [1.0, 2.0])
def test_thousands_of_servers_have_a_wait(servers: int, busy: float, scv: float) -> None:
    service = scalar.Moments(servers * busy, 1.0)
    wanted = scalar.mean_wait(scalar.Gaps(1.0, scv), service, servers)
    found = mean_wait(Queues(*columns(1.0, scv, servers)), Moments(*columns(*service)))
    assert found[0] == pytest.approx(wanted, rel=1e-9, abs=1e-30)
    if scv == 1:  # M/M/c, by Erlang's loss: blocked 1 / B(c) = 1 + c / load / B(c - 1)
        inverse = 1.0
        for count in range(1, servers + 1):
            inverse = 1 + count / (servers * busy) * inverse
        waits = 1 / (inverse * (1 - busy) + busy)
        assert found[0] == pytest.approx(waits * busy / (1 - busy), rel=1e-9, abs=1e-30)


def test_nobody_waits_where_there_is_no_work_or_no_variation() -> None:
    found = mean_wait(
        Queues(*columns([1, 1, 1], [1, 0, 0], [1, 1, 3])), Moments(*columns([0, 0.9, 0.5], [0, 0, 0]))
    )
    assert found.tolist() == [0, 0, 0]


def test_moments_are_weighted() -> None:
    # 1 and 3 with weights 3 and 1: mean 1.5, mean square 3: 3 / 2.25 - 1
    found = moments(
        np.array([[1.0, 3.0, 9.0], [5.0, 5.0, 5.0]]), np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    )
    assert found.mean.tolist() == [1.5, 0] and found.scv == pytest.approx([1 / 3, 0], abs=1e-15)


# --- sharing ----------------------------------------------------------------------------------------------------


def test_prompts_fit_into_the_room_that_others_leave() -> None:
    # Equal prompts of 100 into rooms of 350 and 99: of renewal theory 350 / 100 - 1 / 2 = 3; none.
    sizes, weights = np.full((1, 2), 100.0), np.ones((1, 2))
    assert _partners(np.array([[350.0, 99.0]]), sizes, weights).tolist() == [[3.0, 0.0]]
    # 100 and 300 into 200: half of the prompts fit, 200 / 100 - 1 / 2 of them
    assert _partners(np.array([[200.0, 0.0]]), np.array([[100.0, 300.0]]), weights).tolist() == [[0.75, 0.0]]
    # weights of the shorter one 0: the longer one alone counts, and does not fit
    assert _partners(
        np.array([[200.0, 0.0]]), np.array([[100.0, 300.0]]), np.array([[0.0, 1.0]])
    ).tolist() == [[0, 0]]


def shared(own: list[float], fixed: float, partners: list[float]) -> tuple[Sharing, _Prompts, ScalarSharing]:
    seconds, weights = np.array([own]), np.ones((1, len(own)))
    mean, most = np.mean(own), 1 + np.mean(partners)
    found = Sharing(*columns(mean, np.var(own), min(own), fixed, most, mean - fixed, 0.0), np.zeros(1, int))
    return (
        found,
        _Prompts(seconds, weights),
        ScalarSharing(tuple(own), fixed, tuple(partners), (1.0,) * len(own)),
    )


@pytest.mark.parametrize(
    "own", [[0.02, 0.06], [0.004, 0.06]], ids=["all save", "the shortest saves all it takes"]
)
def test_sharing_saves_the_fixed_part_but_never_more_than_a_prompt_takes(own: list[float]) -> None:
    found, typical, wanted = shared(own, 0.01, [5.0, 1.0])
    takes = found.takes(np.array([4.0]), typical)
    each = [max(0.0, seconds - 0.01 * 3 / 4) for seconds in own]
    assert wanted.takes(4.0) == tuple(each)
    assert takes.mean[0] == pytest.approx(np.mean(each), rel=1e-14)
    assert takes.scv[0] == pytest.approx(np.var(each) / np.mean(each) ** 2, rel=1e-13)


def test_steps_of_prompts_that_waited_are_as_full_as_in_the_scalar_code() -> None:
    for rate in (0.5, 5.0, 20.0, 24.0, 26.0, 27.5):
        for servers in (1, 3):
            found, typical, wanted = shared([0.02, 0.06], 0.01, [5.0, 1.0])
            gaps = scalar.Gaps(1 / (rate * servers), 1.7)
            queues = Queues(*columns(gaps.mean, gaps.scv, servers))
            assert step_sizes(found, typical, queues)[0] == wanted.size(gaps, servers)


# --- fixed points -------------------------------------------------------------------------------------------------


def test_fixed_points_stop_at_the_most() -> None:
    slope, rest = np.array([0.5, 0.5, 0.0, 2.0]), np.array([4.0, 40.0, 0.0, 1.0])
    found, full = fixed_point(lambda rows, batch: rest[rows] + slope[rows] * batch, np.full(4, 32.0))
    # b = 4 + b / 2; 40 + b / 2 beyond 32; nothing; 1 + 2 b beyond
    assert found == pytest.approx([8, 32, 0, 32], rel=1e-6)
    assert full.tolist() == [20, 56, 0, 65]


def test_fixed_points_at_a_jump_are_found_by_halving() -> None:
    found, _ = fixed_point(lambda rows, batch: np.where(batch < 5, 9.0, 2.0), np.array([32.0]))
    assert found == pytest.approx([5], abs=1e-8)


# --- classes, slabs, verdicts ---------------------------------------------------------------------------------------


def test_points_that_are_alike_are_one_class() -> None:
    a, b = np.array([1.0, 2.0, 1.0, 2.0, 1.0]), np.array([7.0, 7.0, 7.0, 8.0, 7.0])
    first, place = distinct(a, b, np.full(5, math.nan))
    assert first.tolist() == [0, 1, 3] and place.tolist() == [0, 1, 0, 2, 0]
    assert [len(part) for part in distinct(np.zeros(0))] == [0, 0]


def test_many_classes_of_many_columns_stay_apart() -> None:
    draw = np.random.default_rng(2)
    rows = draw.integers(0, 5000, (2000, 4)).astype(float)
    rows[1000:] = rows[:1000]
    first, place = distinct(*rows.T)
    assert len(first) == 1000 and (rows[first][place] == rows).all()


def test_slabs_cover_every_count() -> None:
    counts = np.array([3, 2 * _SLAB, 0, 0, 5, _SLAB, 1])
    found = list(_slabs(counts))
    assert [begin for begin, _ in found] == [0, *(end for _, end in found[:-1])] and found[-1][1] == 7
    assert all(counts[begin:end].sum() <= _SLAB or end == begin + 1 for begin, end in found)


def test_the_verdict_is_the_least_delay_of_the_rivals() -> None:
    nan = math.nan
    delays = np.array(
        [[3.0, nan, 2.0, nan], [2.0, nan, nan, 0.0], [4.0, 1.0, nan, 5.0], [1.0, 0.5, 1.0, nan]]
    )
    rivals = np.ones(delays.shape, bool)
    rivals[3, :2] = False
    found = verdicts(delays, rivals)
    assert found.best.tolist() == [1, 2, 3, 1] and found.runner_up.tolist() == [0, -1, 0, 2]
    assert found.margin == pytest.approx([1.5, nan, 2.0, nan], nan_ok=True)  # no two; a best delay of 0
    assert verdicts(np.full((4, 1), nan), np.ones((4, 1), bool)).best.tolist() == [-1]


# --- step times -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["h100-sxm", "a100-sxm-80gb"], ids=["", "a slow host"])
def steps(request: Any) -> Any:
    stack = "splitwise-2023" if request.param == "a100-sxm-80gb" else None
    times = StepTimes(Scenario("Llama-3.1-8B", hardware=request.param, stack=stack).deployment().decode)
    return SimpleNamespace(scalar=times, arrays=ArraySteps(times))


def test_mean_steps_are_those_of_the_scalar_code(steps: Any) -> None:
    tokens = np.array([1.0, 1.5, 63.0, 63.99, 64.0, 65.0, 127.9, 128.0, 129.0, 1000.3, 131071.9, 170001.7])
    sampled = np.array([0.2, 1.5, 63.0, 2.5, 3.5, 1.0, 1.0, 5.0, 1.0, 300.2, 700.0, 1.0])
    wanted = [steps.scalar.token_smooth(*map(float, pair)) for pair in zip(tokens, sampled)]
    assert steps.arrays.tokens(tokens, sampled) == pytest.approx(wanted, rel=1e-13)
    batch, each = np.array([1.0, 1.2, 17.5, 300.0]), np.array([1.0, 800.5, 4000.0, 50.0])
    wanted = [steps.scalar.decode_smooth(float(b), float(b * n)) for b, n in zip(batch, each)]
    assert steps.arrays.decodes(batch, each) == pytest.approx(wanted, rel=1e-13)
    assert steps.arrays.decode_of_one(each) == pytest.approx(
        [steps.scalar.decode(1, n) for n in each], rel=1e-13
    )


def test_decodes_that_ride_along_are_those_of_the_scalar_code(steps: Any) -> None:
    size, prefix = np.array([512.0, 512, 100, 1, 1]), np.array([0.0, 700, 31, 5, 0])
    batch, each = np.array([0.0, 0.4, 1.0, 7.3, 90.0]), np.full(5, 900.0)
    wanted = [
        steps.scalar.riding_smooth(Chunk(int(n), int(p)), float(b), float(b * 900))
        for n, p, b in zip(size, prefix, batch)
    ]
    alone = steps.arrays.chunks(size, prefix)
    assert alone == pytest.approx(
        [steps.scalar.chunk_time(Chunk(int(n), int(p))) for n, p in zip(size, prefix)]
    )
    assert steps.arrays.riding((size, prefix), alone, batch, each) == pytest.approx(
        wanted, rel=1e-12, abs=1e-18
    )


def test_prompts_and_their_chunks_are_summed_one_by_one(steps: Any) -> None:
    typical = Prompts(
        np.array([[100.0, 1030.0], [64.0, 65.0], [513.0, 4000.0]]), np.array([[0.0, 0], [7, 7], [0, 0]])
    )
    table = PromptTable(steps.arrays, typical)
    for row in range(3):
        for column in range(2):
            given = int(typical.uncached[row, column]), int(typical.cached[row, column])
            assert table.alone[row, column] == pytest.approx(steps.scalar.prefill(*given), rel=1e-13)
    rows, sizes = np.array([2, 0, 1, 2, 0]), np.array([64.0, 64, 64, 500, 64])
    cut, at = table.cut(rows, sizes)
    assert at[1] == at[4] and len(cut.attention) == 4
    for row, size, place in zip(rows, sizes.astype(int), at):
        for column in range(2):
            left, done = int(typical.uncached[row, column]), int(typical.cached[row, column])
            total = 0.0
            while left:
                chunk = min(int(size), left)
                total += steps.scalar.chunk_time(Chunk(chunk, done))
                left, done = left - chunk, done + chunk
            assert cut.attention[place, column] == pytest.approx(total, rel=1e-12)
        assert cut.sums[place].tolist() == [0, cut.attention[place, 0], cut.attention[place].sum()]
    more, again = table.cut(np.array([1, 2]), np.array([32.0, 64.0]))
    assert len(more.attention) == 5 and more.attention[again[1]].tolist() == cut.attention[at[0]].tolist()


def test_two_prompts_in_a_step_save_its_fixed_part(steps: Any) -> None:
    table = PromptTable(steps.arrays, Prompts(np.array([[300.0]]), np.array([[40.0]])))
    both = steps.scalar.step((Chunk(300, 40),) * 2, 2, 0, 0.0)
    wanted = max(0.0, 2 * steps.scalar.prefill(300, 40) - both)
    assert table.saved(np.array([300.0]), np.array([0])) == pytest.approx([wanted], rel=1e-9)
