"""Prefixes that are not found: too long for their tier, or forgotten; one ideal, and what is computed again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cli_runner import run
from test_tiers_replay import played, store, tier

from costmodel.decision.at_once import AtOnce
from costmodel.decision.reuse import gain_at_once, offered_writes, places_at_once
from costmodel.errors import InputError
from costmodel.evaluate import summary
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.ideal import Ideal, smooth_again
from costmodel.evaluate.prefix import PrefixCache
from costmodel.evaluate.reference import evaluate
from costmodel.evaluate.replay import replay
from costmodel.evaluate.tally import Tally
from costmodel.evaluate.tiers import Prefixes, TierStore, holds, together
from costmodel.grid.closed import ClosedGrid
from costmodel.grid.points import GridPoints
from costmodel.inputs.traces import Reading, could_be_cached, read_trace, trace_workload
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.questions import reuse
from costmodel.questions.replay import ask_replay
from costmodel.questions.tiers import parse_tiers
from costmodel.questions.workload import Changes, choose_workload
from costmodel.serving.deployment import Deployment
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED

MODEL = ("Llama-3.1-8B", "--hardware", "h100-sxm", "--topology", "1P1D")


def answered(*arguments: str) -> dict[str, Any]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


# --- a stated prefix has to fit its tier --------------------------------------------------------------------


def test_a_tier_holds_what_has_room_windows_and_states_included() -> None:
    # 60 tokens of 100 bytes fill 6,000 bytes; with 100 bytes of a sequence besides, 59 do.
    assert holds(tier(), 60) and not holds(tier(), 61)
    assert holds(tier(fixed_bytes=100.0), 59) and not holds(tier(fixed_bytes=100.0), 60)


@pytest.mark.parametrize(("capacity", "load", "computed"), [(30.0, 60, 8), (29.0, 0, 38)])
def test_a_stated_prefix_that_does_not_fit_is_computed(
    bench: Any, capacity: float, load: int, computed: int
) -> None:
    # 8 new tokens over 30 of a byte each: read in 2 ticks a token where 30 bytes hold them; else all 38 are computed.
    below = replace(store(bench), capacity_bytes=capacity)
    deployment = replace(bench.round_deployment(), tiers=(below,))
    deployment = replace(deployment, settings=replace(deployment.settings, prefix_held="store"))
    (record,) = played(bench, COLOCATED, deployment, [(0, 8, 30, 1)])
    assert bench.ticks(record.load, record.p1) == (load, load + computed)
    # What is computed again is all of the stretch, and nobody's interference.
    assert bench.ticks(record.recomputed_prefix, record.stretch) == (computed - 8, computed - 8)
    times: Any = dict.fromkeys((deployment.prefill,), bench.RoundTimes())
    for how in (evaluate, replay):
        found = how(COLOCATED, deployment, [Request(0.0, 8, 30, 1)], Slo(), times).prefixes
        assert (found.tiers[0].unheld, found.hits) == ((0, 1) if load else (1, 0))


@pytest.mark.parametrize("method", ["replay", "closed"])
def test_recommend_warns_of_a_tier_without_room(method: str) -> None:
    asked = ("recommend", *MODEL, "--isl", "8192", "--osl", "64", "--cached", "8000", "--rate", "0.5", "--no-slo",
             "-q", "-f", "json", "--method", method, *(("--requests", "60") if method == "replay" else ()))  # fmt: skip
    small = answered(*asked, "--offload", "dram-pcie5,capacity=1MB")
    bare = answered(*asked, "--prefix-held", "both", "--offload", "dram-pcie5,capacity=1MB")
    assert any("no room at all for stated prefixes of up to 8,000" in text for text in small["warnings"])
    for one, held in zip(small["strategies"], bare["strategies"]):
        assert one["hit_rate_tokens"] == {"hbm": 0, "tier dram-pcie5": 0, "computed": 1}
        assert one["ledger"]["load_s"] == 0
        # the same ideal, wherever the prefix lies
        assert one["ledger"]["ideal_s"] == pytest.approx(held["ledger"]["ideal_s"], rel=1e-12)
        assert one["recomputed_prefix_s"] > 0.1 > one["interference_s"]
    # 8,000 tokens of 131,072 bytes are 1.05 GB
    roomy = answered(*asked, "--offload", "dram-pcie5,capacity=1.1GB")
    assert not any("no room" in text for text in roomy["warnings"])
    assert roomy["strategies"][0]["hit_rate_tokens"]["tier dram-pcie5"] == pytest.approx(8000 / 8192)


def test_replay_counts_the_prompts_without_room(tmp_path: Path) -> None:
    rows = "".join(f"{i},{1000 * (1 + i % 2)},5,{900 * (1 + i % 2)}\n" for i in range(10))
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens,cached_tokens\n" + rows)
    # 900 tokens of 131,072 bytes are 118 MB and fit; the 1,800 of every second prompt do not.
    answer = answered(
        "replay", str(trace), "--model", *MODEL, "--strategy", "colocated", "--offload",
        "dram-pcie5,capacity=120MB", "-q", "-f", "json",
    )  # fmt: skip
    assert any("no room at all for the stated prefixes of 5 prompts" in text for text in answer["warnings"])
    assert answer["tiers"][0]["unheld"] == 5 and answer["tiers"][0]["reads"] == 5


# --- one ideal, and what is computed again ------------------------------------------------------------------


def blocks_trace(path: Path) -> Path:
    """Ten prompts of four blocks of 512 tokens, the first two alike in all."""
    lines = [
        {"timestamp": 4000 * i, "input_length": 2000, "output_length": 8, "hash_ids": [1, 2, 10 + i, 30 + i]}
        for i in range(10)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_recommend_and_replay_have_one_ideal(tmp_path: Path) -> None:
    trace = blocks_trace(tmp_path / "blocks.jsonl")
    asked = ("--hardware", "h100-sxm", "--topology", "1P1D", "-q", "-f", "json")
    one = answered(
        "recommend", "Llama-3.1-8B", "--trace", str(trace), "--no-slo", "--method", "replay", *asked
    )
    other = answered("replay", str(trace), "--model", "Llama-3.1-8B", *asked)
    for a, b in zip(one["strategies"], other["strategies"]):
        if a["name"] == "deflected":  # recommend chooses its rule
            continue
        assert a["ledger"] == pytest.approx(b["ledger"], rel=1e-9, abs=1e-12)
        assert a["recomputed_prefix_s"] == pytest.approx(b["recomputed_prefix_s"], rel=1e-9)
        assert a["mean_delay_s"] > -1e-12


def test_requests_of_a_program_have_that_ideal_too(tmp_path: Path) -> None:
    path = blocks_trace(tmp_path / "blocks.jsonl")
    scenario = Scenario("Llama-3.1-8B", "h100-sxm", topology="1P1D")
    rows = [
        *read_trace(path),
        Request(50.0, 100, 50, 1),
    ]  # the last names no blocks: its 50 cached tokens stand
    assert [r.cached_tokens for r in could_be_cached(rows)] == [0, *(1024,) * 9, 50]
    one, other = (ask_replay(load, scenario, ["chunked"]) for load in (rows[:-1], path))
    assert one.strategies[0].ledger == pytest.approx(other.strategies[0].ledger)
    assert one.strategies[0].ledger is not None and one.strategies[0].recomputed_prefix_s is not None
    # Two instances: the second prompt of the prefix finds it on one of them alone.
    assert one.strategies[0].recomputed_prefix_s > 0


def test_a_workload_of_a_trace_knows_what_a_cache_without_bound_would_hold(tmp_path: Path) -> None:
    path = blocks_trace(tmp_path / "blocks.jsonl")
    workload = choose_workload(None, path, Changes())
    # All but the first find two blocks of 512 tokens; closed forms and typical requests take none as found.
    assert [r.cached_tokens for r in workload.requests] == [0, *(1024,) * 9]
    assert [r.uncached_tokens for r in workload.requests] == [2000, *(976,) * 9]
    assert all(r.cached_tokens == 0 and r.uncached_tokens == 2000 for r in workload.typical())
    assert all(r.cached_tokens == 0 for r in trace_workload(path, Slo(), how=Reading()).requests)


def block_rows(bench: Any) -> list[Request]:
    """Three prompts of one prefix of 30 tokens, 8 of their own, as one instance after the other would meet them."""
    return [
        Request(at * bench.tick, new, old, 1, (1, 2, 3, own), 10)
        for at, new, old, own in ((0, 38, 0, 4), (1000, 8, 30, 5), (2000, 8, 30, 6))
    ]


def test_blocks_that_an_instance_lacks_are_computed_again_by_hand(bench: Any) -> None:
    # Round-robin over two instances: the second prompt finds nothing where it lands, 38 - 8 ticks again; the third
    # is back where the first was and finds all.
    split = type(bench.round_deployment().topology)(2, 0)
    deployment = bench.round_deployment(split, routing="round-robin")
    times: Any = dict.fromkeys((deployment.prefill,), bench.RoundTimes())
    for how in (evaluate, replay):
        records = how(COLOCATED, deployment, block_rows(bench), Slo(), times).records
        assert [bench.ticks(r.recomputed_prefix)[0] for r in records] == [0, 30, 0]
        assert [bench.ticks(r.stretch)[0] for r in records] == [0, 30, 0]
        tally = Tally(Slo(), "decode", exact=True)
        for record in records:
            tally.add(record)
        totals = tally.totals()
        assert totals.ledger is not None and totals.recomputed_prefix_s is not None
        parts = summary.group(totals.ledger, totals.recomputed_prefix_s)
        assert bench.ticks(parts["recomputed_prefix_s"], parts["interference_s"]) == (10, 0)
        delay = totals.ledger["e2e_s"] - totals.ledger["ideal_s"]
        assert sum(parts.values()) + totals.ledger["recompute_s"] == pytest.approx(delay)


class _Line:
    """An instance kind on which prompts take ``a`` seconds, and each token a second, or ``b``."""

    def __init__(self, a: float, b: float) -> None:
        self.a, self.b = a, b

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        return self.a + self.b * tokens

    def decode(self, batch: int, context: float) -> float:
        return 1.0

    def run(self, batch: int, context: int, count: int) -> float:
        return float(count)


def test_again_is_of_the_kind_that_the_ideal_takes() -> None:
    # 10 new tokens over 90: 5 + 10 s or 1 + 20 s. The first is the faster; over 40 found it takes 5 + 60.
    slow, fast, request = _Line(1, 2), _Line(5, 1), Request(0.0, 10, 90, 3)
    assert Ideal([slow, fast]).of(request) == (15.0, 2.0)
    assert Ideal([slow, fast]).again(request, 40) == smooth_again([slow, fast], request, 40) == 50.0
    assert Ideal([slow]).again(request, 40) == 100.0
    assert Ideal([slow, fast]).again(request, 95) == -5.0
    assert Ideal([slow, fast]).again(request, 90) == smooth_again([slow], request, 90) == 0.0


def test_closed_forms_know_what_is_computed_again(bench: Any) -> None:
    lengths = Lengths(192, 0.0, 1, 192), Lengths(64, 0.0, 1, 64)
    load = Workload("w", Arrivals(1.0), lengths[0], 8000, lengths[1], Slo(), "test")
    base: Deployment = bench.deployment("1P1D")
    deployment = replace(base, settings=replace(base.settings, prefix_held="decode"))
    times = bench.times(deployment)
    step = times[deployment.prefill]
    means = ClosedForm(deployment, load, times)
    # The prefill side computes 8,192 tokens where the ideal has 8,000 of them; pooled instances have them, too.
    again = step.prefill(8192, 0) - step.prefill(192, 8000)
    assert means.means(DISAGGREGATED).recomputed_prefix_s == pytest.approx(again)
    assert means.means(COLOCATED).recomputed_prefix_s == means.means(CHUNKED).recomputed_prefix_s == 0.0
    # Blocks: the ideal has the 8,000, and the closed form computes all.
    rows = tuple(Request(i * 1.0, 192, 8000, 64, (1, 2), 4096) for i in range(40))
    traced = Workload("t", Arrivals(1.0), None, 0, None, Slo(), "test", rows)
    found = ClosedForm(base, traced, times).means(COLOCATED)
    assert found.recomputed_prefix_s == pytest.approx(again)
    assert found.ideal_s == pytest.approx(means.means(COLOCATED).ideal_s)


def test_words_do_not_call_a_miss_interference() -> None:
    asked = ("recommend", *MODEL, "--isl", "8192", "--cached", "8000", "--osl", "64", "--rate", "0.05", "--no-slo",
             "--prefix-held", "decode", "-q", "--method", "closed")  # fmt: skip
    answer = answered(*asked, "-f", "json")
    split = next(r for r in answer["strategies"] if r["name"] == "disaggregated")
    ledger = split["ledger"]
    assert (
        split["recomputed_prefix_s"] == pytest.approx(ledger["stretch_s"], abs=0.01)
        and ledger["stretch_s"] > 0.15
    )
    assert split["interference_s"] == pytest.approx(
        ledger["stretch_s"] + ledger["stalls_s"] - split["recomputed_prefix_s"], abs=1e-12
    )
    assert abs(split["interference_s"]) < 0.01 and abs(split["splitting_s"]) < 0.01
    parts = ("copy_s", "interference_s", "stranding_s", "sharing_s", "recomputed_prefix_s")
    assert sum(split[part] for part in parts) + ledger["recompute_s"] == pytest.approx(split["mean_delay_s"])
    page = run(*asked).stdout
    assert "prefix computed again" in page and "prefixes that it computes again 0.1" in " ".join(page.split())
    warm = run(*[word if word != "decode" else "both" for word in asked]).stdout
    assert "computed again" not in warm and "computes again" not in warm


# --- hit rates, gains and ports -----------------------------------------------------------------------------


@pytest.mark.parametrize("hit_rate", [0.995, 0.9, 1 / 3])
def test_any_hit_rate_is_exact(bench: Any, hit_rate: float) -> None:
    lengths = Lengths(256, 0.0, 1, 256), Lengths(64, 0.0, 1, 64)
    load = Workload("w", Arrivals(0.01), lengths[0], 8000, lengths[1], Slo(), "t", hit_rate=hit_rate)
    base: Deployment = bench.deployment("2P2D")
    below = tier(
        "host", capacity_bytes=1e15, read_bytes_per_s=12e9, write_bytes_per_s=1e9, bytes_per_token=114_688.0
    )
    deployment = replace(base, tiers=(below,))
    times = bench.times(deployment)
    form, step = AtOnce(deployment, load, times), times[deployment.prefill]
    means = form.means(COLOCATED)
    read, rest, whole = below.read_s(8000), step.prefill(256, 8000), step.prefill(8256, 0)
    floor = hit_rate * (read + rest) + (1 - hit_rate) * whole
    # At one request in 100 s hardly anybody waits: TTFT is its service, a little more.
    assert means.ttft_s is not None and means.accounts is not None
    assert floor <= means.ttft_s < floor * 1.02 + 0.01
    assert means.accounts["load"] == pytest.approx(hit_rate * read, rel=0.01)
    found = gain_at_once(deployment, load, COLOCATED, step, (means, means))
    assert found.hit_share == pytest.approx(hit_rate) and found.hit_tokens == pytest.approx(8000)
    assert found.recompute_s == pytest.approx(whole - rest) and found.read_s == pytest.approx(read)
    shares = places_at_once(deployment, load, step, means, pooled=True)
    assert shares is not None and shares["tier host"] == pytest.approx(hit_rate * 8000 / 8256)
    requests, weights = load.weighed()
    assert sum(weights) == pytest.approx(len(requests))
    # Writes: what is computed, a hit's 256 tokens and a miss's 8,256, by each of two prefill instances.
    busy = replace(load, arrivals=Arrivals(100.0))
    use = 50 * (256 + (1 - hit_rate) * 8000) * 114_688 / 1e9
    (told,) = offered_writes(deployment, busy)
    assert f"{use:.2f} times" in told


def test_a_hit_saves_its_prefill_with_and_without_the_read() -> None:
    class Square:
        def prefill(self, tokens: int, prefix: int = 0) -> float:
            return 10 + tokens + ((prefix + tokens) ** 2 - prefix**2) / 100

    found = Prefixes(PrefixCache(1.0), [TierStore(tier(capacity_bytes=1e9))], Square(), stored=True)
    request = Request(0.0, 20, 80, 1)
    found.take(request, found.find(request))
    # 100 tokens: 10 + 100 + 100; 20 over 80: 10 + 20 + 36. The 80 alone would be 10 + 80 + 64 = 154.
    assert found.saved_s == pytest.approx(210 - 66)


def test_reads_of_several_tiers_go_at_the_same_time_but_by_one_port() -> None:
    # a tick is 0.1 ms a token: 10, 20 and 30 tokens
    own, slow = tier("a"), tier("b", read_bytes_per_s=5e5)
    first, second = tier("c", on_link=True), tier("d", on_link=True)
    cases: Sequence[tuple[Any, float]] = [
        ([(own, 10), (slow, 10)], 2.0),
        ([(first, 10), (second, 20)], 3.0),
        ([(first, 10), (second, 20), (slow, 20)], 4.0),
        ([(first, 10), (own, 20)], 2.0),
        ([], 0.0),
    ]
    for reads, milliseconds in cases:
        assert together(reads) == pytest.approx(milliseconds * 1e-3, abs=1e-15)


@pytest.mark.parametrize(
    ("link", "extra", "shared"),
    [
        ("nvlink4", "", False),
        ("eth-100", "", True),
        ("nvlink4", ",on_link=yes", True),
        ("eth-100", ",on_link=no", False),
    ],
)
def test_reads_cross_the_ports_of_hand_overs_of_their_own_kind(link: str, extra: str, shared: bool) -> None:
    asked = parse_tiers([f"store-eth-100,capacity=1TB{extra}"], "--reuse")
    found = Scenario("Llama-3.1-8B", "h100-sxm", topology="1P1D", link=link, reuse=asked).deployment()
    assert found.tiers[0].on_link is shared


def test_recommend_warns_of_a_bandwidth_above_the_peak() -> None:
    asked = ("recommend", *MODEL, "--isl", "8192", "--cached", "8000", "--osl", "64", "--rate", "0.05", "--no-slo",
             "-q", "-f", "json", "--method", "closed", "--offload")  # fmt: skip
    told = " ".join(answered(*asked, "dram-pcie5,capacity=100GB,bandwidth=500GB/s")["warnings"])
    assert "exceeds its peak" in told
    assert "peak" not in " ".join(answered(*asked, "dram-pcie5,capacity=100GB")["warnings"])


def test_a_grid_has_no_hit_rates(bench: Any) -> None:
    lengths = Lengths(256, 0.0, 1, 256), Lengths(64, 0.0, 1, 64)
    load = Workload("w", Arrivals(1.0), lengths[0], 8000, lengths[1], Slo(), "t", hit_rate=0.5)
    deployment = bench.deployment("1P1D")
    grid = ClosedGrid(deployment)
    with pytest.raises(InputError, match="a hit rate"):
        grid.evaluate(GridPoints(workload=load))


def test_parts_from_several_tiers_are_read_at_the_same_time_in_reuse_too(monkeypatch: Any) -> None:
    # Of prompts of 100 tokens GPU memory has 10, the first tier 20 more and the second 40 more: 2 ms of the first at
    # 0.1 ms a token, 8 ms of the second at 0.2; both behind network ports: one after the other.
    monkeypatch.setattr(reuse, "fleet_of", lambda times, name, found: found)
    levels = [SimpleNamespace(hit_rate=rate) for rate in (0.1, 0.3, 0.7)]
    curve = SimpleNamespace(prompt_tokens=1000, requests=10, output_tokens=10, infinite_hit_rate=0.7)
    asked = SimpleNamespace(isl=None, osl=None, sequences=1)
    for on_link, seconds in ((False, 8e-3), (True, 10e-3)):
        below = [tier("a", on_link=on_link), tier("b", read_bytes_per_s=5e5, on_link=on_link)]
        first, second = cast(Any, reuse)._fleets(None, below, levels, curve, asked, ())
        assert (first.prefix, second.prefix) == (30, 70)
        assert (first.load_s, second.load_s) == (pytest.approx(2e-3), pytest.approx(seconds))
