"""Break-evens: roots by hand, jumps at chunk ends, and symbols that agree with numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.decision.breakeven import UNKNOWNS, Values, advantage, closed_form, numeric_root
from costmodel.formulas.threshold import local_cost, remote_cost

# 44.7 us a token, 14 running decodes, steps of 12 ms, chunks of 2,048, nothing hidden, 31,104 bytes a token
# over 25 GB/s, hand-over 100 ms, no queues
EXAMPLE: Values = {
    "uncached": 1500.0,
    "chunk": 2048.0,
    "prefill_fixed": 0.0,
    "prefill_per_token": 44.7e-6,
    "decode_step": 0.012,
    "piggyback": 0.0,
    "piggyback_fixed": 0.0,
    "decode_weight": 1.0,
    "batch": 14.0,
    "queued_decode": 0.0,
    "wait": 0.0,
    "queued_prefill": 0.0,
    "control": 0.1,
    "latency": 0.0,
    "kv_bytes_per_token": 31_104.0,
    "link_bytes_per_s": 25e9,
}
COPY = 31_104 / 25e9  # seconds a token
LIMITS = {
    "tokens": (1e-6, 131072.0),
    "bandwidth": (1e3, 1e15),
    "batch": (1e-3, 1e5),
    "chunk": (1.0, 1e6),
    "wait": (1e-6, 1e4),
}


@pytest.mark.parametrize(("wait", "one_chunk", "continuous"), [(0.0, 141, 159), (0.78, 1390, 1396)])
def test_tokens(wait: float, one_chunk: int, continuous: int) -> None:
    values = {**EXAMPLE, "wait": wait}
    # one chunk: (W + 0.1 - 0.012) / (14 x 44.7e-6 - copy); chunks u / c: (W + 0.1) / (0.012 / 2048 + ...)
    slope = 14 * 44.7e-6 - COPY
    by_hand = (wait + 0.088) / slope
    assert round(by_hand) == one_chunk
    root = numeric_root("tokens", values, *LIMITS["tokens"])
    form = closed_form("tokens", values)
    assert root.value == pytest.approx(by_hand, rel=1e-12)
    assert form.root.value == pytest.approx(by_hand, rel=1e-12)
    assert (form.root.regime, form.root.valid_from, form.root.valid_to) == ("n = 1 chunk", 0, 2048)
    smooth = closed_form("tokens", values, continuous=True).root.value
    assert smooth == pytest.approx((wait + 0.1) / (0.012 / 2048 + slope), rel=1e-12)
    assert round(smooth or 0) == continuous


def test_bandwidth_batch_and_wait_by_hand() -> None:
    # 1,500 tokens in one chunk: local 0.012 + 15 x 67.05 ms = 1.01775 s; remote 67.05 + 100 ms + copy.
    prefill = 1500 * 44.7e-6
    expected = {
        "bandwidth": 1500 * 31_104 / (0.012 + 15 * prefill - prefill - 0.1),
        "batch": (0.1 + 1500 * COPY - 0.012) / prefill,
        "wait": 0.012 + 14 * prefill - 0.1 - 1500 * COPY,
    }
    assert expected["wait"] == pytest.approx(0.84883376)
    for unknown, value in expected.items():
        assert numeric_root(unknown, EXAMPLE, *LIMITS[unknown]).value == pytest.approx(value, rel=1e-9)
        assert closed_form(unknown, EXAMPLE).root.value == pytest.approx(value, rel=1e-12)


def test_chunk_by_hand_counts_chunks_continuously() -> None:
    # 8,192 tokens, one decode, nothing hidden: (8192 / c) 0.012 = W + 0.1 + copy - a u, so with W = 0.8 and
    # a u = 366.18 ms: c = 98.304 / (0.9 + 0.010192 - 0.366182) = 180.7. Exactly: 46 chunks beat 45.
    values = {**EXAMPLE, "uncached": 8192.0, "batch": 1.0, "wait": 0.8}
    need = 0.9 + 8192 * COPY - 8192 * 44.7e-6
    assert closed_form("chunk", values).root.value == pytest.approx(8192 * 0.012 / need, rel=1e-12)
    # ceil(8192 / c) > need / 0.012 = 45.3 while c < 8192 / 45
    root = numeric_root("chunk", values, *LIMITS["chunk"])
    assert root.value == pytest.approx(8192 / 45, rel=1e-9)


def test_a_jump_at_a_chunk_end_can_be_the_root() -> None:
    # No decodes to stall: local costs n steps of 12 ms and the prefill, remote the prefill, 0.1 s and the
    # copy. 8 chunks are 96 ms, 9 are 108: less than 100 + 1.24 us x 16,384 = 120 ms. 11 chunks (132) beat
    # 100 + 25.5 at 20,480 tokens; 10 (120) do not at 18,432 (122.9).
    values = {**EXAMPLE, "batch": 0.0}
    root = numeric_root("tokens", values, *LIMITS["tokens"])
    assert root.value == root.valid_from == root.valid_to == 10 * 2048
    assert root.regime == "the step at 20480 tokens"
    assert advantage({**values, "uncached": 20_480.0}) < 0 < advantage({**values, "uncached": 20_481.0})


def test_always_local_always_remote_and_neither() -> None:
    slow = {**EXAMPLE, "link_bytes_per_s": 1e7}  # 3.1 ms a token for the copy
    root = numeric_root("tokens", slow, *LIMITS["tokens"])
    assert root.value is None and root.regime.startswith("local prefill is cheaper throughout")
    assert closed_form("tokens", slow).root.value is None
    free = {**EXAMPLE, "control": 0.0}
    root = numeric_root("tokens", free, *LIMITS["tokens"])
    assert (root.value, root.regime) == (0.0, "remote prefill pays at every length")
    # Without control, short prompts gain the step of 12 ms, but every token costs 2.5 ms more by the wire.
    inverted = {**slow, "control": 0.0}
    assert advantage({**inverted, "uncached": 1.0}) > 0 > advantage({**inverted, "uncached": 100.0})
    root = numeric_root("tokens", inverted, *LIMITS["tokens"])
    assert root.value is None and root.regime.startswith("remote prefill pays for short prompts, but not at")
    # No wait makes up for a negative sign: remote pays with none at all.
    root = numeric_root("wait", {**EXAMPLE, "control": 10.0}, *LIMITS["wait"])
    assert root.value is None and root.regime.startswith("local prefill is cheaper throughout")
    assert closed_form("wait", {**EXAMPLE, "control": 10.0}).root.value is None
    for name in ("bandwidth", "batch"):
        assert closed_form(name, {**EXAMPLE, "control": 10.0, "prefill_per_token": 1e-6}).text


def costs(values: Values) -> float:
    """Size of what the advantage is the difference of."""
    return sum(float(f(**{n: values[n] for n in f.parameters})) for f in (local_cost, remote_cost))


positive = st.floats
PARAMETERS = st.fixed_dictionaries(
    {
        "uncached": positive(1, 30_000),
        "chunk": st.sampled_from([512.0, 2048.0, 8192.0]),
        "prefill_fixed": positive(0, 0.05),
        "prefill_per_token": positive(5e-6, 5e-4),
        "decode_step": positive(1e-3, 0.1),
        "piggyback": positive(0, 0.9),
        "piggyback_fixed": positive(0, 1),
        "decode_weight": positive(0.1, 3),
        "batch": positive(0.5, 200),
        "queued_decode": positive(0, 3),
        "wait": positive(0, 3),
        "queued_prefill": positive(0, 5),
        "control": positive(0, 0.5),
        "latency": positive(0, 0.01),
        "kv_bytes_per_token": positive(1e3, 1e6),
        "link_bytes_per_s": positive(1e8, 1e12),
    }
)


@settings(max_examples=25)
@given(values=PARAMETERS, unknown=st.sampled_from(["bandwidth", "batch", "wait"]))
def test_symbols_agree_with_numbers_where_the_root_is_unique(values: Values, unknown: str) -> None:
    parameter = UNKNOWNS[unknown][0]
    form, root = closed_form(unknown, values).root, numeric_root(unknown, values, *LIMITS[unknown])
    if root.value is None:
        low, high = LIMITS[unknown]
        assert form.value is None or not low <= form.value <= high
        return
    assert form.value == pytest.approx(root.value, rel=1e-9)
    assert abs(advantage({**values, parameter: root.value})) <= 1e-9 * costs(
        {**values, parameter: root.value}
    )


@settings(max_examples=20)
@given(values=PARAMETERS)
def test_symbols_agree_with_numbers_for_tokens(values: Values) -> None:
    def at(tokens: float) -> float:
        return advantage({**values, "uncached": tokens})

    form, root = closed_form("tokens", values).root, numeric_root("tokens", values, *LIMITS["tokens"])
    if form.value is not None:  # a zero of the very formula, on its own piece
        assert form.valid_from is not None and form.valid_to is not None
        assert form.valid_from < form.value <= form.valid_to
        assert abs(at(form.value)) <= 1e-9 * costs({**values, "uncached": form.value})
    if root.value is None:
        assert at(LIMITS["tokens"][0]) > 0 or at(LIMITS["tokens"][1]) <= 0
    elif root.value == 0:
        assert all(at(u) > 0 for u in (1e-3, 1.0, 300.0, 5000.0, 100_000.0))
    else:
        below, above = root.value * (1 - 1e-9), math.nextafter(root.value, math.inf) * (1 + 1e-9)
        assert at(below) <= 0 < at(above)
        if root.valid_from != root.valid_to:  # a crossing, no jump
            assert form.value == pytest.approx(root.value, rel=1e-9)


def test_the_closed_form_is_written_in_the_book_s_symbols() -> None:
    form = closed_form("bandwidth", EXAMPLE)
    assert "kv_bytes_per_token" in form.text and "link_bytes_per_s" not in form.text
    assert r"\frac" in form.latex and form.root.regime == "n = 1 chunk"
    two: Any = closed_form("wait", {**EXAMPLE, "uncached": 2049.0}).root
    assert two.regime == "n = 2 chunks"
    assert two.value == pytest.approx(2 * 0.012 + 14 * 2049 * 44.7e-6 - 0.1 - 2049 * COPY, rel=1e-12)
