"""The reference evaluator against timelines worked out by hand.

All times are ticks: a prompt token takes 1, a decode step 10 whatever its batch, a mixed step their sum. A
copy takes half a tick a token, and 2 of control. Rows are (arrival, uncached tokens, output tokens).
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import NoAnswerError
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.reference import Reference, evaluate
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.deployment import Topology
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED

ONE = Topology(1, 0)  # a single instance, for the pooled strategies


# --- colocated ------------------------------------------------------------------------------------------


def test_a_second_prompt_stalls_a_running_decode(bench: Any) -> None:
    # A: prefill 0-20, decodes 20-30; B arrives at 25, prefills 30-60 while A waits; both decode 60-70,
    # which ends B; A 70-80.
    a, b = bench.run(COLOCATED, bench.round_deployment(ONE), [(0, 20, 4), (25, 30, 2)])
    assert bench.ticks(a.p0, a.p1, a.first, a.end) == (0, 20, 20, 80)
    assert bench.ticks(b.p0, b.p1, b.first, b.end) == (30, 60, 60, 70)
    assert bench.ledger(a) == {"stalls": 30}
    assert bench.ledger(b) == {"queue": 5}
    assert bench.ticks(a.ideal_prefill, a.ideal_decode, b.ideal) == (20, 30, 40)
    assert bench.ticks(a.inflicted, b.inflicted) == (0, 30)
    assert (a.route, b.route) == ("local", "local")


def test_whole_prompts_share_a_step_up_to_the_budget(bench: Any) -> None:
    # 20 + 30 tokens fill a budget of 50: one step 0-50. The third prompt has the next, 50-51, alone, and
    # the fourth, larger than the budget, the one after, 51-131: whole all the same.
    rows = [(0, 20, 1), (0, 30, 1), (0, 1, 1), (0, 80, 1)]
    a, b, c, d = bench.run(COLOCATED, bench.round_deployment(ONE, token_budget=50), rows)
    assert bench.ticks(a.end, b.end, c.end, d.end) == (50, 50, 51, 131)
    assert [bench.ledger(r) for r in (a, b, c, d)] == [
        {"stretch": 30},
        {"stretch": 20},
        {"queue": 50},
        {"queue": 51},
    ]


def test_sharing_a_decode_step_is_gathering(bench: Any) -> None:
    # A decode adds 1 to the 10 of a step: alone 11, two 12. Both prefill in 0-10, decode 10-22 together;
    # A's second step 22-33 is alone.
    times = bench.RoundTimes(each=1)
    a, b = bench.run(COLOCATED, bench.round_deployment(ONE), [(0, 5, 3), (0, 5, 2)], times=times)
    assert bench.ticks(a.end, b.end) == (33, 22)
    assert bench.ledger(a) == {"stretch": 5, "gathering": 1}  # 12 + 11 - 2 x 11
    assert bench.ledger(b) == {"stretch": 5, "gathering": 1}


def test_requests_spread_over_the_instances_with_fewest_prompt_tokens(bench: Any) -> None:
    # Four at once on two instances: 30 to the first, 10 and then 10 to the second, whose 20 are still fewer.
    rows = [(0, 30, 1), (0, 10, 1), (0, 10, 1), (0, 5, 1)]
    records = bench.run(COLOCATED, bench.round_deployment("1P1D"), rows)
    assert bench.ticks(*(r.end for r in records)) == (30, 25, 25, 25)


def test_memory_and_seats_admit_the_head_of_the_queue_only(bench: Any) -> None:
    # Room for 40 tokens. A holds 20 + 3 until it ends at 40 (20 of prefill, two steps of decode); B needs
    # 20 + 2 and is passed over at 20 and 30; C (5 + 1) would fit, and waits behind it. B's step 40-60 has
    # room in budget and memory for C too: 40-65.
    deployment = bench.round_deployment(ONE, pool_tokens=40, kv_policy="reserve")
    a, b, c = bench.run(COLOCATED, deployment, [(0, 20, 3), (5, 20, 2), (6, 5, 1)])
    assert bench.ticks(a.end, b.p0, b.first, c.p0, c.end) == (40, 40, 65, 40, 65)
    assert bench.ledger(b) == {"queue": 15, "admission": 20, "stretch": 5}
    assert bench.ledger(c) == {"queue": 34, "stretch": 20}
    # One seat instead: B prefills 40-60 and decodes 60-70. C is the head from 40 on, and passed over twice.
    deployment = bench.round_deployment(ONE, max_seqs=1)
    a, b, c = bench.run(COLOCATED, deployment, [(0, 20, 3), (5, 20, 2), (6, 5, 1)])
    assert bench.ticks(a.end, b.first, b.end, c.p0, c.end) == (40, 60, 70, 70, 75)
    assert bench.ledger(c) == {"queue": 34, "admission": 30}


def test_a_request_that_can_never_fit_is_refused(bench: Any) -> None:
    deployment = bench.round_deployment(pool_tokens=40, decode_tokens=39)
    # 37 + 3 tokens are one more than the decode pool holds; the prefill pool of 40 holds 37.
    with pytest.raises(NoAnswerError, match="37 prompt and 3 output tokens"):
        bench.run(DISAGGREGATED, deployment, [(0, 37, 3)])
    assert bench.run(DISAGGREGATED, deployment, [(0, 37, 2)])[0].finished


# --- chunked --------------------------------------------------------------------------------------------


def test_chunks_ride_on_the_decodes_they_stall(bench: Any) -> None:
    # Budget 25. A: prefill 0-20, decode 20-30. B (from 25): one decode leaves 24 tokens, mixed 30-64, then
    # the last 6 tokens, 64-80. Both decode 80-90.
    deployment = bench.round_deployment(ONE, token_budget=25)
    a, b = bench.run(CHUNKED, deployment, [(0, 20, 5), (25, 30, 2)])
    assert bench.ticks(a.first, a.end) == (20, 90)
    assert bench.ticks(b.p0, b.p1, b.first, b.end) == (30, 80, 80, 90)
    assert bench.ledger(a) == {"stalls": 30}
    assert bench.ledger(b) == {"queue": 5, "stretch": 20}
    assert bench.ticks(b.inflicted) == (30,)


def test_two_prompts_in_one_step(bench: Any) -> None:
    # Budget 25: A's 10 and 15 of B's 30 in 0-25. Then A decodes beside B's other 15: 25-50. B decodes 50-60.
    deployment = bench.round_deployment(ONE, token_budget=25)
    a, b = bench.run(CHUNKED, deployment, [(0, 10, 2), (0, 30, 2)])
    assert bench.ticks(a.p1, a.end, b.p0, b.p1, b.end) == (25, 50, 0, 50, 60)
    assert bench.ledger(a) == {"stretch": 15, "stalls": 15}
    assert bench.ledger(b) == {"stretch": 20}


def test_stalls_are_shared_among_the_prompts_of_a_step_by_tokens(bench: Any) -> None:
    # A decodes from 5. B (6 tokens) and C (18) share its step 5-39, whose 24 beyond the decode are theirs.
    deployment = bench.round_deployment(ONE, token_budget=25)
    a, b, c = bench.run(CHUNKED, deployment, [(0, 5, 3), (3, 6, 1), (3, 18, 1)])
    assert bench.ticks(a.stalls, b.inflicted, c.inflicted) == (24, 6, 18)
    assert bench.ticks(b.end, c.end, a.end) == (39, 39, 49)


def test_a_budget_taken_by_decodes_leaves_none_for_prompts(bench: Any) -> None:
    # Budget 2. A (2 tokens) 0-2; B and C of 1 token each join beside it: 2-13 (one decode leaves 1 token:
    # B), 13-23: A and B decode, C gets nothing. A ends at 23; C rides on B's step: 23-34.
    deployment = bench.round_deployment(ONE, token_budget=2)
    a, b, c = bench.run(CHUNKED, deployment, [(0, 2, 3), (1, 1, 3), (1, 1, 1)])
    assert bench.ticks(a.end, b.p0, b.p1, c.p0, c.p1, b.end) == (23, 2, 13, 23, 34, 34)
    assert bench.ledger(c) == {"queue": 22, "stretch": 10}


def test_a_partial_prompt_is_continued_before_new_ones_start(bench: Any) -> None:
    # Budget 10: A's 25 tokens take 0-10, 10-20 and 20-25 with 5 of B's 7, then B's last 2: -30, -32.
    a, b = bench.run(CHUNKED, bench.round_deployment(ONE, token_budget=10), [(0, 25, 1), (0, 7, 1)])
    assert bench.ticks(a.p1, b.p0, b.p1) == (30, 20, 32)
    assert bench.ledger(a) == {"stretch": 5} and bench.ledger(b) == {"queue": 20, "stretch": 5}


# --- disaggregated --------------------------------------------------------------------------------------


def test_queue_copy_and_admission_at_the_step_boundary(bench: Any) -> None:
    # A: prefill 0-20, copy 20-30, control to 32; decodes 32-42-52. B (from 5): prefill 20-30, copy 30-35,
    # control to 37, seated at 42 when A's step ends; decodes 42-52.
    a, b = bench.run(DISAGGREGATED, bench.round_deployment(token_budget=25), [(0, 20, 3), (5, 10, 2)])
    assert bench.ticks(a.p1, a.reserved, a.copied, a.d0, a.first, a.end) == (20, 20, 32, 32, 32, 52)
    assert bench.ticks(b.p0, b.p1, b.copied, b.d0, b.first, b.end) == (20, 30, 37, 42, 42, 52)
    assert bench.ledger(a) == {"handover": 12}
    assert bench.ledger(b) == {"queue": 15, "admission": 5, "handover": 7}
    assert (a.route, a.tpot) == ("remote", 10 * bench.tick)
    # KV of 20 tokens: 12 ticks on each side from the end of prefill to the first decode step.
    one = bench.pool_of(bench.kind_of("a100-sxm-80gb", 1), 1).pool_bytes
    assert a.held_byte_s == 2 * 12 * bench.tick * 20 * one


def test_copies_wait_for_the_port_they_share(bench: Any) -> None:
    # Two prefill instances, one decode instance. A's copy holds its port 20-30; B, prefilled at 24, waits
    # until 30: copy 30-42, control to 44.
    a, b = bench.run(DISAGGREGATED, bench.round_deployment("2P1D"), [(0, 20, 2), (0, 24, 2)])
    assert bench.ticks(a.copied, a.end, b.copied, b.d0, b.end) == (32, 42, 44, 44, 54)
    assert bench.ledger(a) == {"handover": 12}
    assert bench.ledger(b) == {"link": 6, "handover": 14}
    # To two decode instances from one prefill instance, the port is the source's: prefills 0-20, 20-24
    # (budget 20), copies 20-40 at a tick a token, and B's from 40 instead of 24.
    deployment = bench.round_deployment("1P2D", token_budget=20, path=bench.RoundPath(token=1))
    a, b = bench.run(DISAGGREGATED, deployment, [(0, 20, 2), (0, 4, 2)])
    assert bench.ticks(a.copied, b.p1, b.copied) == (42, 24, 46)
    assert bench.ledger(b) == {"queue": 20, "link": 16, "handover": 6}


def test_memory_is_reserved_before_the_copy(bench: Any) -> None:
    # The decode pool holds 40 tokens: A's 20 + 3 leave no room for B's 10 + 8 until A ends at 52.
    # Copy 52-57, control to 59, seven steps to 129.
    deployment = bench.round_deployment(token_budget=25, decode_tokens=40, kv_policy="reserve")
    a, b = bench.run(DISAGGREGATED, deployment, [(0, 20, 3), (5, 10, 8)])
    assert bench.ticks(a.end, b.p1, b.reserved, b.copied, b.d0, b.end) == (52, 30, 52, 59, 59, 129)
    assert bench.ledger(b) == {"queue": 15, "admission": 22, "handover": 7}


def test_a_prompt_keeps_its_seat_until_its_kv_has_left(bench: Any) -> None:
    # One seat on either side. B could share A's step, but A has the seat, and its KV keeps it until 32:
    # prefill 32-42. A holds the decode seat until 52: copy 52-57, control to 59, one step to 69.
    a, b = bench.run(DISAGGREGATED, bench.round_deployment(max_seqs=1), [(0, 20, 3), (0, 10, 2)])
    assert bench.ticks(a.end, b.p0, b.p1, b.reserved, b.end) == (52, 32, 42, 52, 69)
    assert bench.ledger(b) == {"admission": 42, "handover": 7}
    assert bench.ticks(b.admission, b.seating) == (32, 10)


def test_kv_goes_to_the_decode_instance_that_holds_least(bench: Any) -> None:
    # A's 20 + 9 tokens go to the first instance, B's 10 + 9 to the second, and C's 5 + 9 there as well:
    # 19 tokens held against 29.
    deployment = bench.round_deployment("1P2D", token_budget=20)
    reference = Reference(DISAGGREGATED, deployment, Slo(), {deployment.prefill: bench.RoundTimes()})
    seen = []
    inner = reference._copy

    def note(sequence: Any, held: int, source: Any, target: Any, now: float) -> None:
        seen.append(reference.pools[DISAGGREGATED.routes[0].decode].index(target))
        inner(sequence, held, source, target, now)

    reference._copy = note  # type: ignore[method-assign]
    reference.run([Request(0.0, tokens, 0, 9) for tokens in (20, 10, 5)])
    assert seen == [0, 1, 1]


@pytest.mark.parametrize(
    ("first_token", "first", "end", "tpot", "ledger"),
    [
        ("decode", 32, 52, 10, {"handover": 12}),
        ("prefill", 20, 52, 16, {"handover": 12}),  # the hand-over falls into the gaps: (52 - 20) / 2
        ("recompute", 42, 62, 10, {"handover": 22}),  # one more step over the last prompt token, 32-42
    ],
)
def test_which_side_emits_the_first_token(
    bench: Any, first_token: str, first: float, end: float, tpot: float, ledger: dict[str, float]
) -> None:
    (record,) = bench.run(DISAGGREGATED, bench.round_deployment(first_token=first_token), [(0, 20, 3)])
    assert bench.ticks(record.first, record.end, record.tpot) == (first, end, tpot)
    assert bench.ledger(record) == ledger


@pytest.mark.parametrize(("first_token", "end"), [("decode", 32), ("prefill", 20), ("recompute", 42)])
def test_a_single_output_token(bench: Any, first_token: str, end: float) -> None:
    # decode: sent when the decode side admits it; prefill: no copy; recompute: after its extra step.
    deployment = bench.round_deployment(first_token=first_token, max_seqs=1, token_budget=20)
    a, b = bench.run(DISAGGREGATED, deployment, [(0, 20, 1), (50, 20, 1)])
    assert bench.ticks(a.first, a.end, b.end - 50 * bench.tick) == (end, end, end)
    assert a.tpot is None
    assert bench.ledger(a) == ({"handover": end - 20} if end > 20 else {})


def test_layers_copied_during_prefill_are_hidden(bench: Any) -> None:
    # Half of the 10 ticks of A's copy run before its prefill ends at 20: 15-25, control to 27.
    path = bench.RoundPath(layerwise=True)
    (a,) = bench.run(DISAGGREGATED, bench.round_deployment(path=path), [(0, 20, 2)])
    assert bench.ticks(a.copied, a.end) == (27, 37) and bench.ledger(a) == {"handover": 7}
    # Without a place by then, nothing is hidden. Both prefill in one step 0-30. A copies 25-35, control to
    # 37, decodes to 67; only then B finds room for its 12 tokens: copy 67-72, control to 74.
    deployment = bench.round_deployment(path=path, decode_tokens=31, kv_policy="reserve")
    a, b = bench.run(DISAGGREGATED, deployment, [(0, 20, 4), (0, 10, 2)])
    assert bench.ticks(a.copied, a.end, b.reserved, b.copied) == (37, 67, 67, 74)
    assert bench.ledger(b) == {"stretch": 20, "admission": 37, "handover": 7}


def test_a_hidden_copy_still_waits_for_its_port(bench: Any) -> None:
    # A and B prefill 0-20 and 0-24 on two instances. Layer-wise, A's copy is 15-25 and B's would be 18-30:
    # it waits 7 for the port of the decode instance, 25-37, and hides nothing less.
    path = bench.RoundPath(layerwise=True)
    a, b = bench.run(DISAGGREGATED, bench.round_deployment("2P1D", path=path), [(0, 20, 1), (0, 24, 1)])
    assert bench.ticks(a.copied, b.copied) == (27, 39)
    assert bench.ledger(b) == {"link": 7, "handover": 8}


def test_cached_tokens_are_neither_computed_nor_copied_but_held(bench: Any) -> None:
    # 10 uncached of 30 tokens: prefill 0-10, copy 10-15, control to 17. 30 + 2 do not fit 31.
    stub = {bench.kind_of("a100-sxm-80gb", 1): bench.RoundTimes()}
    request = Request(0.0, 10, 20, 2)
    deployment = bench.round_deployment(decode_tokens=32)
    (record,) = evaluate(DISAGGREGATED, deployment, [request], Slo(), stub).records
    assert bench.ticks(record.p1, record.copied, record.end) == (10, 17, 27)
    with pytest.raises(NoAnswerError):
        evaluate(DISAGGREGATED, bench.round_deployment(decode_tokens=31), [request], Slo(), stub)


def test_recomputing_beside_other_decodes_stalls_nobody(bench: Any) -> None:
    # A decodes from 42 on after its extra step. B's extra step is one of A's decode steps.
    deployment = bench.round_deployment(first_token="recompute", token_budget=20)
    a, b = bench.run(DISAGGREGATED, deployment, [(0, 20, 5), (0, 10, 2)])
    # B: prefill 20-30, copy 30-35, control to 37, seated at 42: extra step 42-52, decode 52-62.
    assert bench.ticks(a.end, b.first, b.end) == (82, 52, 62)
    assert bench.ledger(a) == {"handover": 22}
    assert bench.ledger(b) == {"queue": 20, "admission": 5, "handover": 17}


@pytest.mark.parametrize(("first_token", "contexts"), [("decode", [21, 22]), ("recompute", [20, 21, 22])])
def test_a_decode_step_reads_prompt_and_output_so_far(
    bench: Any, first_token: str, contexts: list[int]
) -> None:
    # Step j of 20 prompt tokens reads 20 + j; recomputing the last prompt token reads the prompt.
    seen = []

    class Times(bench.RoundTimes):  # type: ignore[misc,name-defined]
        def decode(self, batch: float, context: float) -> float:
            seen.append(context)
            return float(super().decode(batch, context))

    times = Times()
    requests, deployment = [Request(0.0, 20, 0, 3)], bench.round_deployment(first_token=first_token)
    ideal = Ideal([bench.RoundTimes()])
    evaluate(DISAGGREGATED, deployment, requests, Slo(), {deployment.prefill: times}, ideal)
    assert seen == contexts


def test_giving_up_stops_the_run(bench: Any) -> None:
    for first_token in ("decode", "prefill"):
        deployment = bench.round_deployment(first_token=first_token, token_budget=10)
        requests = [Request(i * 20 * bench.tick, 10, 0, 1) for i in range(10)]
        asked: list[Any] = []

        def third(record: Any, asked: list[Any] = asked) -> bool:
            asked.append(record)
            return len(asked) == 3

        stub = {deployment.prefill: bench.RoundTimes()}
        run = evaluate(DISAGGREGATED, deployment, requests, Slo(), stub, None, third)
        assert len(asked) == 3 and len(run.finished) == 3
