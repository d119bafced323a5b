"""The threshold: a sum by hand with every term in play, and the worked example with its two crossings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy

from costmodel.formulas import threshold

PROMPT: dict[str, Any] = {"uncached": 5000, "prefill_fixed": 0.02, "prefill_per_token": 1e-4}
LOCAL: dict[str, Any] = {
    "chunk": 2048,
    "decode_step": 0.012,
    "piggyback": 0.25,
    "piggyback_fixed": 0.75,
    "decode_weight": 3,
    "batch": 7,
    "queued_decode": 0.5,
}
REMOTE: dict[str, Any] = {
    "wait": 0.3,
    "queued_prefill": 0.4,
    "control": 0.05,
    "latency": 0.007,
    "kv_bytes_per_token": 1e5,
    "link_bytes_per_s": 2e10,
}


def test_by_hand() -> None:
    # 0.75 * 0.5 + 0.25 * 0.02
    hidden = {"piggyback": 0.25, "piggyback_fixed": 0.75}
    assert threshold.unhidden_prefill(**PROMPT, **hidden) == pytest.approx(0.38, rel=1e-12)
    # three chunks: 1.5 * (3 * 0.012 + 0.38) + 3 * 7 * 0.38 = 0.624 + 7.98
    assert threshold.local_cost(**PROMPT, **LOCAL) == pytest.approx(8.604, rel=1e-12)
    # 0.3 + 1.4 * (0.02 + 0.5) + 0.05 + 0.007 + 5e8 / 2e10
    assert threshold.remote_cost(**PROMPT, **REMOTE) == pytest.approx(1.11, rel=1e-12)
    assert threshold.remote_advantage(**PROMPT, **LOCAL, **REMOTE) == pytest.approx(7.494, rel=1e-12)


def test_one_more_chunk_costs_one_more_step() -> None:
    def cost(uncached: int) -> float:
        own: dict[str, Any] = PROMPT | LOCAL | {"uncached": uncached, "prefill_per_token": 0.0}
        return float(threshold.local_cost(**own))

    assert cost(2048) == cost(1)
    assert cost(2049) - cost(2048) == pytest.approx(1.5 * 0.012, rel=1e-9)


def test_piggyback_hides_all_or_nothing() -> None:
    whole = threshold.unhidden_prefill(**PROMPT, piggyback=0, piggyback_fixed=0)
    assert whole == pytest.approx(0.52, rel=1e-12)
    assert threshold.unhidden_prefill(**PROMPT, piggyback=1, piggyback_fixed=1) == 0
    assert threshold.unhidden_prefill(**PROMPT, piggyback=1, piggyback_fixed=0) == pytest.approx(0.02)
    assert threshold.unhidden_prefill(**PROMPT, piggyback=0, piggyback_fixed=1) == pytest.approx(0.5)


# 44.7 us a token, 14 running decodes, steps of 12 ms, chunks of 2,048, nothing hidden, 31,104 bytes a token
# over 25 GB/s, hand-over 100 ms, no queues
EXAMPLE: dict[str, Any] = {
    "chunk": 2048,
    "prefill_fixed": 0,
    "prefill_per_token": 44.7e-6,
    "decode_step": 0.012,
    "piggyback": 0,
    "piggyback_fixed": 0,
    "decode_weight": 1,
    "batch": 14,
    "queued_decode": 0,
    "queued_prefill": 0,
    "control": 0.1,
    "latency": 0,
    "kv_bytes_per_token": 31_104,
    "link_bytes_per_s": 25e9,
}
# one chunk: (W + 0.1 - 0.012) / (44.7e-6 * 14 - 31104 / 25e9) = (W + 0.088) / 624.556e-6
CROSSINGS = [(0.0, 141), (0.78, 1390)]


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    assert function(low) < 0 < function(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


@pytest.mark.parametrize(("wait", "tokens"), CROSSINGS)
def test_the_worked_example(wait: float, tokens: int) -> None:
    def advantage(uncached: float) -> float:
        return float(threshold.remote_advantage(uncached=uncached, wait=wait, **EXAMPLE))

    assert round(bisect(advantage, 1, 2048)) == tokens  # one chunk throughout


@pytest.mark.parametrize(("wait", "tokens"), [(0.0, 159), (0.78, 1396)])
def test_the_worked_example_with_continuous_chunks(wait: float, tokens: int) -> None:
    # n = u / c instead of its ceiling: (W + 0.1) / (0.012 / 2048 + 624.556e-6)
    traced = threshold.remote_advantage.expression()
    smooth = traced.replace(sympy.ceiling, lambda inner: inner)
    values = {sympy.Symbol(name, positive=True): value for name, value in EXAMPLE.items()}
    values[sympy.Symbol("wait", positive=True)] = wait
    unknown = sympy.Symbol("uncached", positive=True)
    (root,) = sympy.solve(smooth.subs(values), unknown)
    assert round(float(root)) == tokens


@pytest.mark.parametrize(("wait", "tokens"), CROSSINGS)
def test_the_trace_has_the_same_root(wait: float, tokens: int) -> None:
    frozen = threshold.remote_advantage.expression().replace(sympy.ceiling, lambda inner: sympy.Integer(1))
    values = {sympy.Symbol(name, positive=True): value for name, value in EXAMPLE.items()}
    values[sympy.Symbol("wait", positive=True)] = wait
    (root,) = sympy.solve(frozen.subs(values), sympy.Symbol("uncached", positive=True))
    assert round(float(root)) == tokens
