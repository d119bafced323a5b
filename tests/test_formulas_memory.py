"""Budgets of engines, peaks of activations, blocks of the KV pool: hand calculations on primes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import memory


def test_budgets() -> None:
    # 100 x 0.75 = 75 less 3 + 5 + 7 + 11
    total = memory.pool_share_of_total(
        memory_bytes=100,
        memory_share=0.75,
        loaded_bytes=3,
        activation_bytes=5,
        non_torch_bytes=7,
        graph_bytes=11,
    )
    assert total == 49
    # the share is of what was free before loading: 100 x 0.75 less 3
    assert memory.pool_static(free_bytes=100, memory_share=0.75, loaded_bytes=3) == 72
    # the share is of what is left: (100 - 3 - 5 - 8) x 0.75
    left = memory.pool_share_of_free(
        memory_bytes=100, memory_share=0.75, loaded_bytes=3, activation_bytes=5, non_torch_bytes=8
    )
    assert left == 63


def test_peaks_of_activations() -> None:
    # logits 3 x 5 x 7 = 105; hidden states 11 x 13 x 17 = 2,431; 19 besides
    sampling = memory.sampler_peak(
        max_num_seqs=3,
        vocab=5,
        sampler_bytes=7,
        max_num_batched_tokens=11,
        hidden=13,
        token_hidden_bytes=17,
        fixed_bytes=19,
    )
    assert sampling == 2555
    # 11 tokens of 13 x 17 and 19 x 23
    inside = memory.forward_peak(
        max_num_batched_tokens=11, hidden=13, layer_hidden_bytes=17, width=19, layer_width_bytes=23
    )
    assert inside == 11 * (221 + 437)


def test_workspace_of_experts() -> None:
    # 3 tokens x 5 rows: gate and up of 2 x 11 hold the output of 7, too, beside the 11 that are read
    shape = {"max_num_batched_tokens": 3, "top_k": 5, "dtype_bytes": 13}
    assert memory.experts_workspace(**shape, width=11, hidden=7) == 15 * (22 + 11) * 13
    # an output of 29 is wider than gate and up
    assert memory.experts_workspace(**shape, width=11, hidden=29) == 15 * (29 + 11) * 13


@given(pool=st.integers(0, 1000), block=st.integers(1, 50))
def test_blocks_are_filled_one_by_one(pool: int, block: int) -> None:
    count = 0
    while (count + 1) * block <= pool:
        count += 1
    assert memory.pool_blocks(pool_bytes=pool, block_bytes=block) == count


@given(
    tokens=st.integers(1, 90),
    window=st.integers(1, 40),
    budget=st.integers(1, 40),
    block=st.integers(1, 17),
    start=st.integers(0, 16),
)
def test_window_blocks_hold_a_window_and_a_step_wherever_they_start(
    tokens: int, window: int, budget: int, block: int, start: int
) -> None:
    # the last step's tokens, and the others of the first one's window, at any offset within a block
    kept = min(tokens, window - 1 + budget)
    touched = {(start % block + place) // block for place in range(kept)}
    found = memory.window_blocks(
        tokens=tokens, window=window, max_num_batched_tokens=budget, block_tokens=block
    )
    assert found >= len(touched)
    # and one block less would do for a sequence that starts with a block
    assert found - 1 == len({place // block for place in range(kept)})
