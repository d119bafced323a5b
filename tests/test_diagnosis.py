"""What hurts a run: accounts by hand, faults that no ledger carries, and settings that move a figure or do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from logged_runs import run_of_log

from costmodel.audit.runs import Run
from costmodel.diagnosis.accounts import ALONE, MEANING, accounts_of
from costmodel.diagnosis.answer import Diagnosed, Diagnosis
from costmodel.diagnosis.causes import Causes
from costmodel.diagnosis.detail import Detail, read_detail
from costmodel.diagnosis.diagnose import diagnose
from costmodel.diagnosis.levers import Lever
from costmodel.diagnosis.predict import Basis, predict, prepare
from costmodel.evaluate.timeline import Record
from costmodel.inputs.step_times import Steps
from costmodel.inputs.traces import LoggedRequest, runs_of
from costmodel.inputs.workload import Request
from costmodel.records import Figure, Stated
from costmodel.report.render import to_json
from costmodel.serving.affine import AffineSteps
from costmodel.serving.instance import InstanceKind
from costmodel.serving.scenario import Scenario

LOG = Path(__file__).parent.parent / "hardware/measurements/llmservingsim_e2e_vllm019_requests.csv.gz"
SCENARIO = Scenario("meta-llama/Llama-3.1-8B", "h100-sxm")


def by_hand(kind: InstanceKind) -> AffineSteps:
    """Every step takes 10 ms, and 0.1 ms more for each prompt token."""
    return AffineSteps(kind, Steps(0.010, 0.0, 0.0, 0.0001, 0.0))


def figure(metric: str, value: float, word: str | None = "mean") -> Figure:
    return Figure(f"{metric} {word}", metric, value, "second", f"{value}", "", word)


def basis_of(conditions: Mapping[str, Stated], *figures: Figure, made: bool = False) -> Basis:
    return prepare(Run("made", conditions, figures), SCENARIO, tables=by_hand if made else None)


def diagnosis(basis: Basis) -> Diagnosis:
    return diagnose(basis, predict(basis))


def first(basis: Basis, measure: str = "ttft") -> Diagnosed:
    (found,) = [each for each in diagnosis(basis).figures if each.measure == measure]
    return found


def lever(found: Diagnosed, name: str, step: str) -> Lever:
    (only,) = [each for each in found.levers if (each.name, each.step) == (name, step)]
    return only


def of_log(model: str) -> Basis:
    (columns,) = [c for c in runs_of(LOG) if c["model"] == model]
    detail = read_detail(LOG, columns)
    return prepare(run_of_log(detail, columns), Scenario(model, "rtx-pro-6000-blackwell"), detail=detail)


BURST: dict[str, Stated] = {
    "arrival_process": "all at once", "requests": 3, "input_tokens": 1000, "output_tokens": 1, "tp": 1,
    "max_num_batched_tokens": 1000,
}  # fmt: skip
SPLIT: dict[str, Stated] = {
    "topology": "1P1D", "link": "ib-ndr", "concurrency": 1, "requests": 50, "input_tokens": 4096, "output_tokens": 128,
    "tp": 1, "engine": "vLLM",
}  # fmt: skip


# --- accounts ----------------------------------------------------------------------------------------


def test_accounts_of_a_line_by_hand() -> None:
    """Prompts of 110 ms each wait 0, 110 and 220 ms: half of a mean TTFT of 220 ms is the queue."""
    found = first(basis_of(BURST, figure("ttft", 0.22), made=True))
    assert found.account == "queue_s" and found.account_s == pytest.approx(0.110)
    assert found.account_share == pytest.approx(0.5)
    seconds = {account.name: account.seconds for account in found.accounts}
    assert seconds["prefill_s"] == pytest.approx(0.110) and sum(seconds.values()) == pytest.approx(0.220)


def test_what_a_request_takes_alone_hurts_nobody() -> None:
    alone: dict[str, Stated] = {
        "concurrency": 1,
        "requests": 9,
        "input_tokens": 1000,
        "output_tokens": 9,
        "tp": 1,
    }
    found = first(basis_of(alone, figure("ttft", 0.11), made=True))
    assert found.account is None and "100% of it is what a request takes alone" in str(found.account_reason)


@pytest.mark.parametrize("side", ["decode", "prefill", "recompute"])
@pytest.mark.parametrize("strategy", ["chunked", "disaggregated"])
def test_accounts_add_up_to_their_figure(side: str, strategy: str) -> None:
    """Also where token 1 comes from the prefill side, so that the copy lies among the gaps, and under preemptions."""
    conditions: dict[str, Stated] = {**SPLIT, "concurrency": 12, "strategy": strategy, "first_token": side}
    little = Figure("kv_cache_tokens", "kv_cache_tokens", 16_500.0, "token", "16,500")
    replays = basis_of(conditions, figure("ttft", 1.0), little).replays
    assert replays is not None
    played = replays.nominal
    assert any(record.preempted for record in played.records)
    for measure in ("ttft", "tpot", "e2e"):
        accounts = accounts_of(played, measure, "mean", side)
        assert set(accounts) <= set(MEANING)
        assert sum(accounts.values()) == pytest.approx(played.value(measure, "mean"), rel=1e-9)
        raw = [accounts_of(type(played)((r,), 1.0), measure, "mean", side) for r in played.records[:5]]
        for record, parts in zip(played.records, raw):  # one request alone: nothing is scaled away
            assert sum(parts.values()) == pytest.approx(
                {"ttft": record.ttft, "tpot": record.tpot, "e2e": record.e2e}[measure]
            )


def test_a_percentile_is_of_the_requests_about_it() -> None:
    """Twenty prompts in line: those about P90 wait for 17 others, the mean one for 9.5."""
    burst = {**BURST, "requests": 20}
    p90 = first(basis_of(burst, figure("ttft", 2.0, "p90"), made=True))
    assert p90.predicted_s == pytest.approx(0.110 * 18.1)  # 0.9 x 19 = 17.1 places after the first
    assert p90.account_share == pytest.approx(17.1 / 18.1, rel=0.01)


# --- causes of waits ---------------------------------------------------------------------------------

#: Prompts of 110 ms, then ten steps of 10 ms (more where prompts stand in them).
LINE: dict[str, Stated] = {**BURST, "requests": 12, "output_tokens": 11}


def test_a_wait_for_a_sequence_slot_is_one() -> None:
    """One slot: a request a time, 110 + 100 ms each; nobody waits for prompts, and two slots help."""
    found = first(basis_of({**LINE, "max_num_seqs": 1}, figure("ttft", 1.265), made=True))
    assert found.predicted_s == pytest.approx(0.110 + 5.5 * 0.210)
    assert found.account == "queue_s" and found.cause is not None
    assert found.cause.name == "slots" and found.cause.share == pytest.approx(1.0)
    assert "its 1 sequence slots were full for 100% of the wait" in found.said
    more = lever(found, "sequences of a step", "x 2")
    assert more.effect == "helps" and more.causes == ("slots",)
    assert found.setting is None and more.worsens == "tpot"  # prompts stand in decode steps then
    assert found.setting_reason == "sequences of a step x 2 moves it by -23%, and TPOT by +92%"


def test_a_wait_for_memory_is_one() -> None:
    """A pool of two sequences, 256 slots."""
    pool = Figure("kv_cache_tokens", "kv_cache_tokens", 2_100.0, "token", "2,100")
    found = first(basis_of(LINE, figure("ttft", 0.8), pool, made=True))
    assert found.account == "queue_s" and found.cause is not None and found.cause.name == "memory"
    assert "its KV pool of 2,100 tokens could not take the next request" in found.said
    share = lever(found, "memory share", "0.9 to 0.97")
    assert share.causes == ("memory",) and share.effect == "helps"
    assert share.settings == {"vllm": "--gpu-memory-utilization 0.97"}


def test_a_wait_for_prompts_is_one() -> None:
    found = first(basis_of(LINE, figure("ttft", 0.7), made=True))
    assert found.cause is not None and found.cause.name == "prompts" and found.cause.share > 0.95


def test_causes_are_those_of_the_clock() -> None:
    """Two slots that are full from 0 to 3 s, and a third request that comes at 1 s and begins at 4 s."""
    at = [Record(Request(arrival, 10, 0, 5)) for arrival in (0.0, 0.0, 1.0)]
    for record, p0, p1, end in zip(at, (0.0, 0.0, 4.0), (0.5, 2.0, 4.5), (6.0, 3.0, 9.0)):
        record.p0, record.p1, record.end, record.prefill_on = p0, p1, end, 0
    basis = basis_of({**LINE, "max_num_seqs": 2})
    assert basis.ran is not None
    found = Causes(at, basis.ran.deployment).of(at[2], "queue_s")
    assert found == pytest.approx({"slots": 2.0, "memory": 0.0, "prompts": 0.0, "step under way": 1.0})


# --- a real log --------------------------------------------------------------------------------------


def test_measured_stages_name_the_queue_of_a_saturated_engine() -> None:
    """7.1 s of TTFT, of which the engine itself logged 6.98 s before scheduling: 128 sequences were too few."""
    found = first(of_log("meta-llama/Llama-3.1-8B"))
    assert (found.basis, found.account, found.grade) == ("measured stages", "queue_s", "sure")
    assert found.account_s == pytest.approx(6.975, abs=0.001) and found.account_share == pytest.approx(
        0.983, abs=0.001
    )
    assert found.setting is not None and (found.setting.name, found.setting.step) == (
        "sequences of a step",
        "x 2",
    )
    assert found.setting.settings == {"vllm": "--max-num-seqs 256"}
    assert found.setting.change is not None and found.setting.change < -0.5
    ranked = [each.change for each in found.levers if each.change is not None]
    assert ranked == sorted(ranked)
    assert lever(found, "instances", "+ 1").kind == "hardware"
    assert not [
        each for each in found.levers if each.name == "token budget" and each.step == "x 2"
    ]  # within noise
    assert found.cause is not None and found.cause.name == "slots" and found.cause.share > 0.9
    assert "its 128 sequence slots were full for 99%" in found.said


def test_a_model_that_is_off_names_no_setting_where_its_ledger_cannot_tell() -> None:
    """Qwen3-32B on two GPUs without NVLink: TPOT is a fifth above the prediction, more than accounts lie apart."""
    basis = of_log("Qwen/Qwen3-32B")
    tpot = first(basis, "tpot")
    assert tpot.inside is False and tpot.grade == "not carried"
    assert tpot.account is None and tpot.setting is None and "not in the model" in str(tpot.setting_reason)
    ttft = first(basis)  # its stages were measured; the queue would lead wherever the rest belongs
    assert ttft.account == "queue_s" and ttft.setting is not None


# --- a fault that no ledger carries ------------------------------------------------------------------


def test_a_fault_outside_of_the_model_is_not_explained_away() -> None:
    """TTFT of 6.3 s of one client, where prompt and copy take 0.1 s: 98 % is not in the model, and is no copy."""
    found = first(basis_of(SPLIT, figure("ttft", 6.3)))
    assert found.inside is False and found.grade == "not carried" and found.account is None
    assert found.predicted_s is not None and found.predicted_s < 0.2
    assert found.unexplained_s == pytest.approx(6.3 - (found.predicted_s or 0.0))
    assert found.unexplained_share == pytest.approx(0.98, abs=0.01)
    copy = next(each for each in found.ruled_out if "copy of 4,096 tokens" in each.what)
    assert (
        4096 * 131072 / 50e9 <= copy.seconds <= 0.03
    )  # 131,072 B a token over 50 GB/s, and what software adds
    assert copy.times == pytest.approx((found.unexplained_s or 0.0) / copy.seconds) and copy.times > 100
    assert any("prompt computed alone" in each.what for each in found.ruled_out)
    assert found.setting is None and "need not move the run" in str(found.setting_reason)


def test_less_than_predicted_is_said_as_such() -> None:
    found = first(basis_of(SPLIT, figure("tpot", 0.001)), "tpot")
    assert found.unexplained_s is not None and found.unexplained_s < 0 and not found.ruled_out
    assert "less than predicted" in str(found.sureness)


def test_what_an_engine_may_take_outside_of_steps_is_no_account() -> None:
    """40 ms of TTFT where steps take 10: a front end of which nothing is known may hold it, and no account does."""
    conditions: dict[str, Stated] = {
        "engine": "SGLang", "concurrency": 4, "requests": 40, "input_tokens": 64, "output_tokens": 16, "tp": 1,
    }  # fmt: skip
    basis = basis_of(conditions, figure("ttft", 0.04))
    (row,) = predict(basis).rows
    assert row.inside is False and row.inside_with_front_end
    assert row.front_end_s == pytest.approx(0.3024)  # the most of SGLang's packaged stacks
    assert row.high_s is not None and row.high_s < 0.04
    assert f"only with a front end of {(0.04 - row.high_s) * 1e3:.3g} ms or more" in str(row.note)
    found = first(basis)
    assert found.grade == "not carried" and found.account is None and "front end" in str(found.sureness)
    own = first(
        basis_of({**conditions, "engine": "vLLM"}, figure("ttft", 0.04))
    )  # its stack says what it takes
    assert "front end" not in str(own.sureness)


# --- settings ----------------------------------------------------------------------------------------


def test_moved_settings_by_hand() -> None:
    """Ten prompts of 110 ms in line: mean 605 ms. Two GPUs: lines of five, 330 ms. Chunks of 500: 120 ms each, 660."""
    found = first(basis_of({**BURST, "requests": 10}, figure("ttft", 0.6), made=True))
    assert found.predicted_s == pytest.approx(0.605)
    assert lever(found, "instances", "+ 1").value_s == pytest.approx(0.330)
    assert lever(found, "token budget", "/ 2").value_s == pytest.approx(0.660)
    assert lever(found, "token budget", "/ 2").change == pytest.approx(660 / 605 - 1)
    # two prompts share a step of 210 ms: 210, 210, 420, 420, ... : mean 630, which is within the noise of ten
    assert ("token budget", "x 2") not in {(each.name, each.step) for each in found.levers}
    assert lever(found, "arrival rate", "- 10%").reason == "requests that come all at once have no rate"
    assert found.setting is None  # nothing that is moved lowers it


def test_a_change_within_the_noise_helps_nobody() -> None:
    """At one client no sequence limit and no larger budget changes anything: they are left out."""
    found = first(basis_of(SPLIT, figure("ttft", 0.11)))
    assert not {("sequences of a step", "x 2"), ("token budget", "x 2")} & {
        (e.name, e.step) for e in found.levers
    }
    assert lever(found, "concurrency", "- 1").reason == "one client cannot be fewer"
    chunked = lever(found, "strategy", "chunked")  # no copy: 15 ms of 116 ms less
    assert chunked.effect == "helps" and chunked.kind == "strategy"
    assert lever(found, "copy bandwidth", "x 2").kind == "hardware"


def test_flags_are_those_of_the_engine() -> None:
    slots: dict[str, Stated] = {**LINE, "max_num_seqs": 1}
    for engine, known in (("SGLang", {"sglang"}), ("", {"vllm", "sglang", "trtllm"})):
        found = first(
            basis_of({**slots, "engine": engine} if engine else slots, figure("ttft", 1.2), made=True)
        )
        assert lever(found, "sequences of a step", "x 2").settings.keys() == known


# --- what cannot be diagnosed ------------------------------------------------------------------------


def test_what_cannot_be_diagnosed_says_why() -> None:
    assert "neither TTFT" in str(diagnosis(basis_of(SPLIT, figure("prefill_time", 0.1))).reason)
    without = {key: value for key, value in SPLIT.items() if key != "concurrency"}
    found = diagnosis(basis_of(without, figure("ttft", 0.1)))
    assert not found.figures and "neither concurrency nor" in str(found.reason)


def test_a_prediction_without_a_band_is_unsure() -> None:
    found = first(basis_of(BURST, figure("ttft", 0.22), made=True))
    assert found.grade == "unsure" and "no band" in str(found.sureness)


def test_the_statistic_asked_for_is_diagnosed_where_it_was_measured() -> None:
    basis = basis_of({**BURST, "requests": 20}, figure("ttft", 1.1), figure("ttft", 2.0, "p95"), made=True)
    made = predict(basis)
    assert diagnose(basis, made).figures[0].statistic == "mean"
    assert diagnose(basis, made, "p95").figures[0].statistic == "p95"
    assert diagnose(basis, made, "p99").figures[0].statistic == "mean"


def test_a_diagnosis_is_json() -> None:
    text = to_json(diagnosis(basis_of(SPLIT, figure("ttft", 6.3), figure("tpot", 0.007), figure("e2e", 7.2))))
    assert '"unexplained_share": 0.98' in text and all(name in MEANING for name in ALONE)


# --- two clocks ----------------------------------------------------------------------------------------


def test_the_time_before_the_engines_queue_is_an_account_of_its_own() -> None:
    """The client counts 2 s more than the engine: its row has its own interval, and the front end is what hurts."""
    at = [
        LoggedRequest(Request(i / 2, 1000, 0, 11), 2.11 + i / 1e4, 0.11 + i / 1e4, None, 0.21)
        for i in range(20)
    ]
    detail = Detail("x", tuple(at), True, True)
    ttfts = [
        replace(figure("ttft", value), conditions={"ttft_from": start})
        for value, start in ((2.11095, "the client's sending"), (0.11095, "the engine's queue"))
    ]
    basis = prepare(Run("made", {"tp": 1}, tuple(ttfts)), SCENARIO, detail=detail, tables=by_hand)
    sent, queued = predict(basis).rows
    assert (sent.ttft_from, queued.ttft_from) == ("the client's sending", "the engine's queue")
    for row in (sent, queued):
        assert row.measured_low_s is not None and row.measured_high_s is not None
        assert row.measured_low_s < row.measured_s < row.measured_high_s
    client, engine = diagnosis(basis).figures
    assert client.account == "front_end_s" and client.account_s == pytest.approx(2.0)
    assert (
        client.account_share == pytest.approx(2.0 / 2.11095) and client.grade == "sure" and not client.levers
    )
    assert sum(account.seconds for account in client.accounts) == pytest.approx(2.11095)
    assert "counted from the client's sending" in client.said
    assert engine.account is None and engine.measured_s == pytest.approx(0.11095)
