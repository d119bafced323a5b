"""Routing rules against decisions and timelines worked out by hand; ticks as in the reference's tests.

Kairos: a prompt runs on a decode instance where its chunks, each the largest that keeps the mixed step within
beta x TBT SLO, end within alpha x the estimate of the way by the prefill pool and within the TTFT SLO.
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.evaluate.reference import Reference, evaluate
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.chunk_cap import Cap, largest_chunk
from costmodel.serving.strategies import DISAGGREGATED, Rule, RuleKind, deflected, parse_rule

SIZES = (32, 16, 8)


def kairos(printed: bool = False, **settings: Any) -> Any:
    kind = RuleKind.KAIROS_PRINTED if printed else RuleKind.KAIROS
    return deflected(Rule(kind, **({"candidates": SIZES} | settings)))


def routes(records: Any) -> list[str]:
    return [record.route for record in records]


# A 40-token prompt meets an idle deployment and stays local: chunks 32 + 8, 40 ticks, against 40 remote. It
# decodes from 40 on, so that later mixed steps take 10 more than their chunk.
RUNNING = (0, 40, 30)


def test_an_idle_decode_instance_takes_a_prompt_in_its_largest_chunks(bench: Any) -> None:
    (record,) = bench.run(kairos(printed=True, alpha=1), bench.round_deployment(), [(0, 40, 3)], tpot=30)
    assert (record.route, *bench.ticks(record.p0, record.p1, record.first, record.end)) == (
        "local",
        0,
        40,
        40,
        60,
    )
    assert bench.ledger(record) == {}


def test_printed_rule_leaves_the_copy_out(bench: Any) -> None:
    # B: 20 tokens in one chunk beside A: 30 ticks. Remote: 20 as printed, 32 with the copy (10) and control.
    rows = [RUNNING, (45, 20, 2)]
    for printed, alpha, route in (
        (True, 1.3, "remote"),  # 30 > 26
        (True, 1.5, "local"),  # 30 <= 30
        (False, 1.0, "local"),  # 30 <= 32
    ):
        records = bench.run(kairos(printed, alpha=alpha), bench.round_deployment(), rows, tpot=30)
        assert routes(records) == ["local", route]
    # By how much the copy must take for alpha = 1: at 8 ticks (and 2 of control) both take 30; at 7, remote.
    for per_token, route in ((0.4, "local"), (0.35, "remote")):
        deployment = bench.round_deployment(path=bench.RoundPath(token=per_token))
        assert routes(bench.run(kairos(alpha=1), deployment, rows, tpot=30))[1] == route


def test_a_deflected_prompt_rides_on_the_decodes(bench: Any) -> None:
    # B waits for A's step 40-50 and takes 50-80 with it; both decode 80-90.
    a, b = bench.run(kairos(alpha=1), bench.round_deployment(), [(0, 40, 4), (45, 20, 2)], tpot=30)
    assert bench.ticks(b.p0, b.p1, b.end, a.end) == (50, 80, 90, 90)
    assert bench.ledger(b) == {"queue": 5, "stretch": 10} and bench.ledger(a) == {"stalls": 20}


def test_chunks_descend_and_the_last_is_shortened(bench: Any) -> None:
    # Beside A a step may take 30: chunks of 16 (26 ticks) and, of the last 8 tokens, 8: 26 + 26 + 18 = 70
    # ticks for 40 tokens. Mixed steps 50-76-102-120.
    seen: list[int] = []

    class Times(bench.RoundTimes):  # type: ignore[misc,name-defined]
        def step(self, chunks: Any, last: int, batch: int, context: float) -> float:
            if batch and chunks:
                seen.append(chunks[0].tokens)
            return float(super().step(chunks, last, batch, context))

    rows = [RUNNING, (45, 40, 2)]
    deployment = bench.round_deployment(path=bench.RoundPath(token=1))
    _, b = bench.run(kairos(alpha=1), deployment, rows, times=Times(), tpot=30)
    assert b.route == "local"  # 70 <= 40 + 40 + 2
    assert bench.ticks(b.p0, b.p1) == (50, 120)
    assert bench.ledger(b) == {"queue": 5, "stretch": 30}
    assert 32 in seen  # tried, and too long
    # At alpha = 1 with a copy of 27 ticks (and 2) the 69 of the way around are faster.
    deployment = bench.round_deployment(path=bench.RoundPath(token=27 / 40))
    assert bench.run(kairos(alpha=1), deployment, rows, tpot=30)[1].route == "remote"


def test_largest_chunk_by_hand(bench: Any) -> None:
    times, tick = bench.RoundTimes(), bench.tick

    def chunk(cap: float | None, left: int, batch: int, budget: int = 2048) -> int | None:
        found: int | None = largest_chunk(
            times, Cap(None if cap is None else cap * tick, (8, 32, 16)), left, 0, batch, 100, budget
        )
        return found

    assert chunk(42, 100, 1) == 32  # 32 + 10 just fits, in whatever order the candidates come
    assert chunk(41, 100, 1) == 16
    assert chunk(41, 31, 1) == 31  # the largest candidate, shortened to what is left: 41
    assert chunk(17, 100, 1) is None  # 8 + 10
    assert chunk(17, 100, 0) == 32  # nobody decodes: no limit
    assert chunk(None, 100, 5) == 32
    assert chunk(None, 100, 5, budget=31) == 16  # above the engine's cap: dropped
    assert chunk(None, 100, 5, budget=7) is None


def test_beta_is_the_share_of_the_slo_that_a_step_may_take(bench: Any) -> None:
    rows = [RUNNING, (45, 8, 2)]
    # 8 tokens beside A take 18. beta x 30 = 18 at 0.6, and 17.25 at 0.575.
    for beta, route in ((0.6, "local"), (0.575, "remote")):
        records = bench.run(kairos(alpha=4, beta=beta), bench.round_deployment(), rows, tpot=30)
        assert routes(records) == ["local", route]
    # Without a TPOT SLO nothing limits a step: 40 tokens in 32 + 8.
    records = bench.run(kairos(alpha=2), bench.round_deployment(), [RUNNING, (45, 40, 2)])
    assert routes(records) == ["local", "local"] and bench.ticks(records[1].p0, records[1].p1) == (50, 110)


def test_a_deflected_prompt_must_meet_its_own_ttft_slo(bench: Any) -> None:
    for ttft, route in ((30, "local"), (29, "remote")):
        rows = [(0, 28, 30), (45, 20, 2)]
        records = bench.run(kairos(alpha=4), bench.round_deployment(), rows, ttft=ttft, tpot=30)
        assert routes(records) == ["local", route]


def test_one_deflected_prompt_a_decode_instance(bench: Any) -> None:
    rows = [(0, 40, 3), (1, 40, 3), (2, 40, 3)]
    assert routes(bench.run(kairos(), bench.round_deployment("1P1D"), rows)) == ["local", "remote", "remote"]
    assert routes(bench.run(kairos(), bench.round_deployment("1P2D"), rows)) == ["local", "local", "remote"]
    # The slot is free again once the prompt has ended, at 40.
    rows = [(0, 40, 3), (40, 8, 2)]
    assert routes(bench.run(kairos(), bench.round_deployment("1P1D"), rows)) == ["local", "local"]


def test_the_queue_ahead_is_what_makes_deflection_pay(bench: Any) -> None:
    # Budget 64. B (64 tokens) goes remote at 45: 64 against 4 x 26 = 104. C (20 tokens, 30 beside A) at 46
    # finds 64 tokens ahead: 64 / 64 x 64 + 20 = 84 as printed.
    strategy, deployment = kairos(printed=True, alpha=1), bench.round_deployment(token_budget=64)
    records = bench.run(strategy, deployment, [RUNNING, (45, 64, 2), (46, 20, 2)], tpot=30)
    assert routes(records) == ["local", "remote", "local"]
    # The estimate's own figures: 96 tokens ahead at a budget of 64 are one and a half steps of 64.
    reference = Reference(strategy, deployment, Slo(), {deployment.prefill: bench.RoundTimes(fixed=3)})
    rule, request = strategy.rule, Request(0.0, 100, 0, 2)
    reference.router.prompts[0].pending_tokens = 96
    # 1.5 x (3 + 64) + (3 + 64) + (3 + 36)
    assert reference.router._remote_ttft(rule, request) == 206.5 * bench.tick
    aware = kairos(alpha=1).rule
    assert reference.router._remote_ttft(aware, request) == (206.5 + 50 + 2) * bench.tick


def test_the_faster_decode_instance_is_taken(bench: Any) -> None:
    # A runs on the first decode instance, so that B's 20 tokens take 30 there and 20 on the second.
    records = bench.run(kairos(), bench.round_deployment("1P2D"), [RUNNING, (45, 20, 2)], tpot=30)
    assert routes(records) == ["local", "local"]
    assert bench.ticks(records[1].p0, records[1].p1) == (45, 65) and records[0].stalls == 0


def test_no_deflection_without_memory_for_the_whole_sequence(bench: Any) -> None:
    for tokens, route in ((92, "local"), (91, "remote")):  # 40 + 30 and 20 + 2
        deployment = bench.round_deployment(decode_tokens=tokens, kv_policy="reserve")
        assert bench.run(kairos(alpha=2), deployment, [RUNNING, (45, 20, 2)], tpot=30)[1].route == route


def test_threshold_keeps_shorter_prompts_local(bench: Any) -> None:
    strategy = deflected(Rule(RuleKind.THRESHOLD, threshold=20))
    # Two at a time, in chunks of the token budget: 19 + 6 of the second, and 13 beside the first's decode.
    deployment = bench.round_deployment(token_budget=25)
    a, b, c = bench.run(strategy, deployment, [(0, 19, 2), (0, 19, 2), (0, 20, 2)])
    assert routes((a, b, c)) == ["local", "local", "remote"]
    assert bench.ticks(a.p1, a.end, b.p0, b.p1, b.end) == (25, 48, 0, 48, 58)
    assert bench.ledger(a) == {"stretch": 6, "stalls": 13}
    # C: prefill 0-20, copy to 30, control to 32, seated at 48 for the step that B decodes in too.
    assert bench.ticks(c.p1, c.copied, c.d0, c.end) == (20, 32, 48, 58)
    # What counts are uncached tokens.
    request, stub = Request(0.0, 19, 500, 2), {deployment.prefill: bench.RoundTimes()}
    assert evaluate(strategy, deployment, [request], Slo(), stub).records[0].route == "local"


def test_the_extreme_thresholds(bench: Any) -> None:
    rows = [(i * 7, 5 + 3 * i, 1 + i % 4) for i in range(12)]
    deployment = bench.round_deployment("1P2D", token_budget=32)
    never = bench.run(deflected(Rule(RuleKind.THRESHOLD, threshold=0)), deployment, rows)
    plain = bench.run(DISAGGREGATED, deployment, rows)
    assert [(r.first, r.end) for r in never] == [(r.first, r.end) for r in plain]
    always = bench.run(deflected(Rule(RuleKind.THRESHOLD, threshold=10**9)), deployment, rows)
    assert set(routes(always)) == {"local"}


def test_rules_are_named_and_checked() -> None:
    assert parse_rule("kairos").kind is RuleKind.KAIROS
    assert parse_rule("kairos-printed").kind is RuleKind.KAIROS_PRINTED
    assert parse_rule("threshold:512") == Rule(RuleKind.THRESHOLD, threshold=512)
    for text in ("threshold", "threshold:x", "threshold:-1", "kairo", "kairos:3"):
        with pytest.raises(InputError):
            parse_rule(text)
    for settings in ({"alpha": 0.9}, {"beta": 0}, {"beta": 1.1}, {"candidates": ()}, {"candidates": (0,)}):
        with pytest.raises(InputError):
            Rule(RuleKind.KAIROS, **settings)  # type: ignore[arg-type]
