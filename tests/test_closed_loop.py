"""Closed loops: by hand, against a loop of steps played out, and where they lead with many clients."""

from __future__ import annotations

import random
from statistics import fmean

import numpy
import pytest

from costmodel.serving.closed_loop import Loop, closed_loop


def test_one_client_by_hand() -> None:
    """20 ms, half a step of 10 ms, a prompt of 100 ms beside a step: 135 ms; then 10 gaps of 10 ms."""
    seen = closed_loop(Loop(isl=500, osl=11, concurrency=1), 0.01, 0.1, 0.02)
    assert seen.ttft == pytest.approx(0.135, rel=1e-12)
    assert seen.tpot == pytest.approx(0.01, rel=1e-12)
    assert seen.rate == pytest.approx(1 / 0.235, rel=1e-12)
    assert Loop(500, 11, 1).context == 505.5  # half of the output on average


def test_a_single_token_is_a_prompt_alone() -> None:
    seen = closed_loop(Loop(100, 1, 1), 0.01, 0.1)
    assert seen.rate == pytest.approx(1 / 0.115, rel=1e-12)


def test_three_clients_by_hand() -> None:
    """TPOT: a step of 1 s and 2 prompts of 5 s over 10 tokens, 2 s. Free: 0.5 + 5 + 1 + 9 gaps, 24.5 s.

    The others' prompts are 10 s: 14.5 s between, W = (sqrt(14.5^2 + 2 x 10 x 5) - 14.5) / 2 = 1.557 s.
    """
    seen = closed_loop(Loop(7, 10, 3), 1.0, 5.0)
    assert seen.tpot == pytest.approx(2.0, rel=1e-12)
    assert seen.ttft == pytest.approx(6.5 + 1.557, abs=5e-4)
    assert seen.rate == pytest.approx(3 / (24.5 + 1.557), abs=5e-6)


def test_rates_follow_littles_law() -> None:
    for clients in (1, 2, 8, 64):
        loop = Loop(1000, 100, clients)
        seen = closed_loop(loop, 0.01 + 1e-4 * clients, 0.06, 0.03)
        assert seen.rate * (seen.ttft + 99 * seen.tpot) == pytest.approx(clients, rel=1e-12)


def test_many_clients_are_served_one_prompt_after_the_other() -> None:
    rates = [closed_loop(Loop(1000, 50, n), 0.01, 0.04).rate for n in (1, 4, 16, 64, 10_000)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(1 / 0.04, rel=0.01)
    assert all(rate < 1 / 0.04 * 1.001 for rate in rates)


def test_arrays_are_numbers() -> None:
    loop, steps, prompts = Loop(900, 30, 5), [0.01, 0.011, 0.02], [0.1, 0.12, 0.3]
    together = closed_loop(loop, numpy.array(steps), numpy.array(prompts), 0.02)
    for place, pair in enumerate(zip(steps, prompts)):
        alone = closed_loop(loop, *pair, 0.02)
        assert [float(values[place]) for values in together] == pytest.approx(list(alone), rel=1e-12)


def played_out(
    loop: Loop, decode: float, prefill: float, latency: float, requests: int
) -> tuple[float, float]:
    """Mean TTFT and TPOT of clients who each wait for ``latency`` on average, at random, before the queue has them.

    One prompt a step, beside all decodes, before steps of decodes alone.
    """
    draw, now = random.Random(11), 0.0
    coming = [(draw.random() * loop.osl * decode, 0.0) for _ in range(loop.concurrency)]
    queue: list[tuple[float, float]] = []
    running: list[list[float]] = []  # tokens left, time of the first
    ttft, tpot = list[float](), list[float]()
    while len(tpot) < requests:
        queue += sorted(each for each in coming if each[0] <= now)
        coming = [each for each in coming if each[0] > now]
        if not queue and not running:
            now = min(coming)[0]
            continue
        prompt = queue.pop(0) if queue else None
        now += decode + (prefill if prompt else 0.0)
        for sequence in running:
            sequence[0] -= 1
            if sequence[0] == 0:
                tpot.append((now - sequence[1]) / (loop.osl - 1))
                think = latency * 2 * draw.random()
                coming.append((now + think, think))
        running = [sequence for sequence in running if sequence[0] > 0]
        if prompt:
            ttft.append(now - prompt[0] + prompt[1])
            running.append([loop.osl - 1, now])
    return fmean(ttft), fmean(tpot)


@pytest.mark.parametrize("clients", [1, 2, 4, 8])
@pytest.mark.parametrize(("osl", "prefill"), [(100, 0.05), (200, 0.2), (40, 0.02)])
def test_rates_are_those_of_a_loop_played_out_and_prompts_are_met_or_waited_for(
    clients: int, osl: int, prefill: float
) -> None:
    loop = Loop(1000, osl, clients)
    seen = closed_loop(loop, 0.01, prefill, 0.1)
    ttft, tpot = played_out(loop, 0.01, prefill, 0.1, 4000)
    assert seen.rate == pytest.approx(clients / (ttft + (osl - 1) * tpot), rel=0.05)
    if clients == 1:  # nobody is in mid-step when its request comes
        assert seen.tpot == pytest.approx(tpot, rel=1e-9)
        assert seen.ttft == pytest.approx(ttft + 0.01 / 2, rel=0.02)
    else:
        # Clients bunch: those that queue behind each other end together, too. Of the prompts of a bunch the first
        # of its requests meets all, the last none: half as many, and the wait for them is part of TTFT instead.
        assert 0.5 <= (tpot - 0.01) / (seen.tpot - 0.01) < 1
        assert ttft > 0.98 * seen.ttft
