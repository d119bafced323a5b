"""Stated prefixes in closed forms: against replay, hit rates as mixtures, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_runner import run
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.decision.at_once import AtOnce
from costmodel.decision.operating import operating_point, prefix_seconds, threshold
from costmodel.errors import InputError
from costmodel.evaluate import summary
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.replay import replay
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload, with_misses
from costmodel.serving.deployment import Deployment
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from costmodel.serving.tiers import KvTier

THRESHOLD = deflected(Rule(RuleKind.THRESHOLD, threshold=500))
STRATEGIES = (COLOCATED, CHUNKED, DISAGGREGATED, THRESHOLD)


def load(rate: float, hit_rate: float = 1.0) -> Workload:
    """Prompts of 3,000 cached tokens and some hundreds of their own."""
    lengths = Lengths(700, 0.8, 8, 6000), Lengths(60, 0.7, 2, 600)
    return Workload("w", Arrivals(rate), lengths[0], 3000, lengths[1], Slo(), "test", hit_rate=hit_rate)


def held(bench: Any, where: str, bandwidth: float = 12e9, *, on_link: bool = False) -> Deployment:
    """Two prefill and two decode instances, whose prefixes lie there."""
    base: Deployment = bench.deployment("2P2D")
    tier = KvTier("host", on_link, 1e15, bandwidth, 1e12, 114_688.0, latency_s=1e-3, on_link=on_link)
    return replace(
        base,
        settings=replace(base.settings, prefix_held=where),
        tiers=(tier,) if where == "store" else (),
    )


@pytest.mark.parametrize("strategy", STRATEGIES, ids=[s.name for s in STRATEGIES])
@pytest.mark.parametrize(
    ("where", "hit_rate"), [("store", 1.0), ("store", 0.6), ("prefill", 0.6), ("decode", 1.0)]
)
def test_means_and_percentiles_are_those_of_a_replay(
    bench: Any, strategy: Strategy, where: str, hit_rate: float
) -> None:
    deployment, workload = held(bench, where), load(10, hit_rate)
    form = AtOnce(deployment, workload, bench.times(deployment))
    means = form.means(strategy)
    rows = workload.sample(6000, 3)
    played = replay(strategy, deployment, rows, workload.slo, bench.tables(deployment))
    done = summary.settled(played.records)
    ledger = summary.mean_ledger(done)
    assert means.accounts is not None and means.ttft_s is not None
    assert means.accounts["load"] == pytest.approx(ledger["load_s"], rel=0.08, abs=1e-12)
    assert means.ttft_s == pytest.approx(summary.mean([r.ttft for r in done]), rel=0.08)
    assert form.refusal(strategy) is None
    law, ttfts = form.ttft(strategy), sorted(r.ttft for r in done)
    for share in (0.5, 0.95):
        assert law.quantile(share) == pytest.approx(summary.quantile(ttfts, share), rel=0.1)


def test_a_port_is_a_queue_of_one_server(bench: Any) -> None:
    # 3,000 tokens of 114,688 bytes at 3 GB/s and 1 ms: 115.7 ms. Of 10 prompts a second each of four instances reads
    # 2.5: busy 28.9 %; waiting 0.289 x 0.1157 / (2 x 0.711) s, as services are alike.
    deployment = held(bench, "store", 3e9)
    means = AtOnce(deployment, load(10), bench.times(deployment)).means(COLOCATED)
    read = 3000 * 114_688 / 3e9 + 1e-3
    use = 2.5 * read
    assert {p.role: p.utilisation for p in means.loads}["tier host"] == pytest.approx(use)
    assert means.accounts is not None
    assert means.accounts["load"] == pytest.approx(read + use * read / (2 * (1 - use)))
    # A router evens out: prompts wait less than that; percentiles are refused.
    why = AtOnce(deployment, load(10), bench.times(deployment)).refusal(COLOCATED)
    assert why is not None and "reads queue" in why


def test_too_many_reads_make_a_strategy_unstable_by_the_name_of_the_tier(bench: Any) -> None:
    deployment = held(bench, "store", 3e9)
    means = AtOnce(deployment, load(25), bench.times(deployment)).means(DISAGGREGATED)
    # 12.5 a second for each of two prefill instances, 115.7 ms each
    assert not means.stable and means.reason == "the tier host is offered 1.45 times its capacity"


def test_reads_by_the_ports_of_copies_make_copies_wait(bench: Any) -> None:
    own, same = (held(bench, "store", on_link=on_link) for on_link in (False, True))
    apart, together = (AtOnce(d, load(10), bench.times(d)).means(DISAGGREGATED) for d in (own, same))
    assert apart.accounts is not None and together.accounts is not None
    assert together.accounts["link"] > apart.accounts["link"]
    assert together.accounts["load"] > apart.accounts["load"]
    loads = [{p.role: p.utilisation for p in means.loads} for means in (apart, together)]
    assert loads[1]["link"] == pytest.approx(loads[0]["link"] + loads[0]["tier host"])


@pytest.mark.parametrize("where", ["both", "prefill", "decode", "store"])
def test_the_threshold_counts_what_a_prefix_costs_on_either_side(bench: Any, where: str) -> None:
    deployment, workload = held(bench, where), load(10)
    times = bench.times(deployment)
    form = ClosedForm(deployment, workload, times)
    found = prefix_seconds(deployment, form, times, 1.0)
    step, path = times[deployment.prefill], deployment.path
    again = copied = 0.0
    for request in form.requests:
        again += step.prefill(request.uncached_tokens + 3000, 0) - step.prefill(request.uncached_tokens, 3000)
        copied += path.wire_s(request.uncached_tokens + 3000) - path.wire_s(request.uncached_tokens)
    again, copied = again / len(form.requests), copied / len(form.requests)
    expected = {"both": 0.0, "prefill": copied - again, "decode": again, "store": copied}
    assert found == pytest.approx(expected[where], rel=1e-12)
    point = operating_point(deployment, workload, times, closed=form)
    base = operating_point(held(bench, "both"), workload, times)
    assert point.values["latency"] == pytest.approx(base.values["latency"] + found)
    if (
        where == "decode"
    ):  # remote prefill computes 3,000 tokens more: it pays for longer prompts alone, or never
        own, same = threshold(point.selfish()).value, threshold(base.selfish()).value
        assert own is None or same is None or own > same


# --- hit rates -----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(hit_rate=st.floats(0, 1), seed=st.integers(0, 10))
def test_a_hit_rate_is_met_and_moves_nothing_else(hit_rate: float, seed: int) -> None:
    all_hit, some = load(5).sample(2000, seed), load(5, hit_rate).sample(2000, seed)
    hits = sum(r.cached_tokens > 0 for r in some)
    assert abs(hits / 2000 - hit_rate) < 5 * (0.25 / 2000) ** 0.5
    for one, other in zip(all_hit, some):
        assert one == other or other == one._replace(uncached_tokens=one.isl, cached_tokens=0)
    typical = load(5, hit_rate).typical(24)
    share = sum(r.cached_tokens > 0 for r in typical) / len(typical)
    assert share == pytest.approx(hit_rate, abs=0.5 / len(typical) + 1e-9)
    assert sum(r.isl for r in typical) / len(typical) == pytest.approx(
        sum(r.isl for r in load(5).typical(24)) / 24
    )


def test_misses_are_those_that_have_something_to_miss() -> None:
    rows = [Request(0.0, 5, 0, 1), Request(0.0, 5, 7, 1)]
    assert list(with_misses(rows, 0.0, 1)) == [rows[0], Request(0.0, 12, 0, 1)]
    assert list(with_misses(rows, 1.0, 1)) == rows


# --- the commands ----------------------------------------------------------------------------------------------

ASKED = (
    "recommend", "Llama-3.1-8B", "--hardware", "h100-sxm", "--topology", "2P2D", "--isl", "10000", "--cached", "8000",
    "--osl", "200", "--rate", "6", "--hit-rate", "0.7", "-q", "-f", "json",
)  # fmt: skip
TIER = ("--offload", "dram-pcie5,capacity=500GiB,bandwidth=50GB/s")


def answered(*arguments: str) -> dict[str, Any]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_recommend_tells_the_gain_of_a_hit_and_of_the_fleet() -> None:
    answer = answered(*ASKED, *TIER, "--requests", "400")
    gains = {one["strategy"]: one for one in answer["reuse"]["strategies"]}
    for result in answer["strategies"]:
        gain = gains[result["name"]]
        assert result["ledger"]["load_s"] > 0 and result["ttft_p95_stages"]["load_s"] >= 0
        assert sum(result["ttft_p95_stages"].values()) == pytest.approx(result["ttft_p95_s"])
        assert sum(result["hit_rate_tokens"].values()) == pytest.approx(1)
        assert result["hit_rate_tokens"]["tier dram-pcie5"] == pytest.approx(0.8 * gain["hit_share"])
        assert abs(gain["hit_share"] - 0.7) < 0.07 and gain["hit_tokens"] == 8000
        # 8,000 tokens of 131,072 bytes at 50 GB/s: 21 ms
        assert gain["read_s"] == pytest.approx(8000 * 131_072 / 50e9)
        assert gain["per_hit_gain"] == pytest.approx(gain["recompute_s"] / gain["read_s"])
        assert gain["per_hit_gain"] > 5 > gain["ttft_gain"] > 1.2
        assert gain["fleet_gain"] < gain["capacity_gain"] < gain["per_hit_gain"]
    told = " ".join(answer["assumptions"])
    assert "KV tier dram-pcie5: 500 GiB" in told and "lies in tier dram-pcie5" in told
    assert any(source.startswith("KV tier dram-pcie5") for source in answer["sources"])


def test_by_closed_form_a_hit_gains_the_same() -> None:
    answer = answered(*ASKED, *TIER, "--method", "closed")
    for gain in answer["reuse"]["strategies"]:
        assert gain["read_s"] == pytest.approx(8000 * 131_072 / 50e9)
        assert gain["hit_share"] == pytest.approx(0.7, abs=0.01)
        assert gain["fleet_gain"] is None and "request by request" in gain["fleet_reason"]
    for result in answer["strategies"]:
        assert result["ledger"]["load_s"] == pytest.approx(0.7 * 8000 * 131_072 / 50e9, rel=0.1)
        # 7 in 10 prompts of 10,000 tokens read 8,000
        assert result["hit_rate_tokens"]["tier dram-pcie5"] == pytest.approx(0.56, abs=0.01)
        assert result["hit_rate_tokens"]["computed"] == pytest.approx(0.44, abs=0.01)


def test_by_closed_form_writes_beyond_a_tier_are_a_warning() -> None:
    # 6/s of 4,400 computed tokens of 131,072 bytes for two prefill instances: 1.73 GB/s, where each writes 1 GB/s
    answer = answered(*ASKED, f"{TIER[0]}", f"{TIER[1]},write=1GB/s", "--method", "closed")
    told = [
        re.search(r"is offered ([0-9.]+) times the writes that it takes", text) for text in answer["warnings"]
    ]
    assert [float(one[1]) for one in told if one] == [pytest.approx(1.73, abs=0.015)]


def test_without_tiers_nothing_is_said_of_them() -> None:
    answer = answered(*ASKED, "--method", "closed")
    assert answer["reuse"] is None
    assert all(result["tiers"] == [] for result in answer["strategies"])
    assert any("lies on both sides" in text for text in answer["assumptions"])


def test_replay_with_a_store_and_a_trace_of_blocks(tmp_path: Path) -> None:
    lines = [
        json.dumps({"timestamp": 400 * i, "input_length": 3000, "output_length": 20,
                    "hash_ids": [*range(i % 3 * 10, i % 3 * 10 + 5), 1000 + i]})
        for i in range(60)
    ]  # fmt: skip
    trace = tmp_path / "blocks.jsonl"
    trace.write_text("\n".join(lines) + "\n")
    command = (
        "replay",
        str(trace),
        "--model",
        "Llama-3.1-8B",
        "--hardware",
        "h100-sxm",
        "--topology",
        "1P1D",
        "-q",
    )
    tiers = ("--reuse", "store-ib-hdr,capacity=1TB", "--load", "cheaper", "-f", "json")
    answer = answered(*command, *tiers)
    for result in answer["strategies"]:
        assert result["hit_rate_tokens"]["hbm"] > 0.5 and result["reuse"]["ttft_gain"] > 0
    assert "What KV tiers gain" in run(*command, *tiers[:-2]).stdout
    wrong = run(*command, "--hit-rate", "0.5")
    assert wrong.exit_code == 2 and "names its blocks" in wrong.stderr


def test_a_store_to_hold_prefixes_must_be_there(bench: Any) -> None:
    base = bench.deployment()
    with pytest.raises(InputError, match="there is no store"):
        replace(base, settings=replace(base.settings, prefix_held="store"))
    tier = KvTier("host", False, 1e9, 1e9, 1e9, 1.0)
    with pytest.raises(InputError, match="two KV tiers of one name"):
        replace(base, tiers=(tier, tier))
