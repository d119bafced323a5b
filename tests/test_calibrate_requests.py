"""``calibrate`` on logs of requests: known step times come back, a real engine's second half is predicted."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_runner import asked, run
from conftest import Bench, kind_of
from written_logs import BUDGET, KNOWN, RUN, SEATS, arrivals, serve, write_csv, write_json

from costmodel.errors import InputError
from costmodel.evaluate.logged import replay_log
from costmodel.inputs.step_times import ERRORS, StepFit, Steps, load_steps
from costmodel.inputs.workload import Request
from costmodel.questions.calibrate_requests import CalibrateRequestsAnswer, ask_calibrate_requests
from costmodel.serving.affine import AffineSteps, affine_steps, fastest_steps
from costmodel.serving.deployment import Topology
from costmodel.serving.work import Chunk

STEPS = Steps(*KNOWN.values())
REAL = Path(__file__).parents[2] / "shared/measured/llmservingsim/e2e_vllm019_requests.csv"
real = pytest.mark.skipif(not REAL.exists(), reason="the published log is not here")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("logs") / "made.csv", serve(arrivals(120)))


@pytest.fixture(scope="module")
def fitted(log: Path) -> tuple[CalibrateRequestsAnswer, Path]:
    output = log.parent / "steps.toml"
    return ask_calibrate_requests(log, output=output, date="2026-01-31", source="a loop"), output


# The replay and the steps


def test_the_replay_is_the_engine(bench: Bench) -> None:
    """Every time of every request of the loop, counted from when it was queued, and from its arrival."""
    deployment = replace(
        bench.deployment("1P1D", token_budget=BUDGET, max_seqs=SEATS, lag=True), topology=Topology(1, 0)
    )
    rows = arrivals(150, seed=3)
    requests = [Request(at, prompt, 0, output) for at, prompt, output in rows]
    steps = AffineSteps(deployment.prefill, STEPS)
    served = serve(rows)
    for queued in (True, False):
        replayed = replay_log(deployment, steps, requests, queued, len(rows))
        assert replayed.preempted == 0
        for one, times in zip(served, replayed.times(), strict=True):
            start = one.queued if queued else one.arrival
            assert times.ttft_s == pytest.approx(one.first - start, abs=1e-9)
            assert times.e2e_s == pytest.approx(one.end - start, abs=1e-9)
            assert times.tpot_s == pytest.approx((one.end - one.first) / (one.output - 1), abs=1e-9)


def test_only_the_first_are_replayed_where_no_more_are_asked_for(bench: Bench) -> None:
    deployment = replace(
        bench.deployment("1P1D", token_budget=BUDGET, max_seqs=SEATS, lag=True), topology=Topology(1, 0)
    )
    requests = [Request(at, prompt, 0, output) for at, prompt, output in arrivals(60)]
    steps = AffineSteps(deployment.prefill, STEPS)
    whole = replay_log(deployment, steps, requests, True, 60).times()
    assert replay_log(deployment, steps, requests, True, 25).times() == whole[:25]


def test_step_times_add_up() -> None:
    """8 ms, 3 decodes of 80 us over 1,000 tokens of 60 ns; 100 prompt tokens of 40 us over 50: 100 x (50 + 50) pairs
    of 6 ns.
    """
    times = AffineSteps(kind_of("a100-sxm-80gb", 1), STEPS)
    decode, prompt = 8e-3 + 3 * 8e-5 + 1000 * 6e-8, 100 * 4e-5 + 100 * 100 * 6e-9
    assert times.decode(3, 1000) == pytest.approx(decode)
    assert times.step((Chunk(100, 50),), 1, 3, 1000) == pytest.approx(decode + prompt)
    assert times.prefill(100, 50) == pytest.approx(8e-3 + prompt)
    # each of four steps reads 3 tokens more than the one before
    run = 4 * decode + 3 * (0 + 1 + 2 + 3) * 6e-8
    assert times.run(3, 1000, 4) == pytest.approx(run)
    steps, passed = times.until(3, 1000, 10, run - 1e-6)
    assert (steps, passed) == (4, pytest.approx(run))
    assert times.with_factors({"gemm": 2.0}) is times
    twice = times.with_steps(Steps(*(2 * value for value in KNOWN.values())))
    assert twice.run(3, 1000, 4) == pytest.approx(2 * run)
    assert twice.prefill(100, 50) == pytest.approx(2 * times.prefill(100, 50))
    assert twice.token_bytes(100, 1) == times.token_bytes(100, 1) > 0


def test_peak_rates_of_a_known_model(bench: Bench) -> None:
    """Qwen3-0.6B: 28 layers of 8 KV heads of 128 in bf16 are 114,688 B a token; the A100 moves 2.039 TB/s."""
    deployment = bench.deployment("1P1D")
    found = fastest_steps(deployment.prefill)
    # 0.44 billion parameters of layers and 0.16 of the head (embeddings are tied), 2 B each
    assert found.fixed_s == pytest.approx(2 * 0.596e9 / 2.039e12, rel=2e-2)
    assert found.cached_token_s == pytest.approx(114_688 / 2.039e12, rel=1e-3)
    # two products of a row of 16 query heads of 128 with a key or value, a layer, at 312 TFLOP/s
    assert found.pair_s == pytest.approx(28 * 2 * 2 * 16 * 128 / 312e12, rel=1e-3)
    assert found.prompt_token_s == found.sequence_s > 0


# Known step times come back


def test_known_step_times_come_back(fitted: tuple[CalibrateRequestsAnswer, Path]) -> None:
    (found,) = fitted[0].runs
    for name, value in KNOWN.items():
        assert getattr(found.steps, f"{name}_s") == pytest.approx(value, rel=0.01), name
    for errors in (found.fitted, found.held_out):
        assert set(errors) == set(ERRORS) and max(map(abs, errors.values())) < 0.003
    assert (found.requests, found.held_out_requests, found.ttft_from) == (60, 60, "queued")
    assert (found.model, found.gpu, found.tp, found.stack) == (
        "Qwen/Qwen3-0.6B", "a100-sxm-80gb", 1, "vllm-0.0.0",
    )  # fmt: skip
    assert (found.token_budget, found.max_seqs, found.lag) == (BUDGET, SEATS, True)
    assert not fitted[0].about.warnings


def test_the_held_out_half_is_not_seen(fitted: tuple[CalibrateRequestsAnswer, Path], tmp_path: Path) -> None:
    """Other times of the second half change nothing but its own errors, and are warned of."""
    served = serve(arrivals(120))
    slow = [one._replace(end=one.end + one.end - one.first) for one in served[60:]]
    answer = ask_calibrate_requests(write_csv(tmp_path / "slow.csv", [*served[:60], *slow]))
    (found,), (before,) = answer.runs, fitted[0].runs
    assert found.steps == before.steps and found.fitted == before.fitted
    assert found.held_out["tpot_p50"] == pytest.approx(-0.5, abs=0.01)
    assert "held out, more than 10% off in tpot_p50, tpot_p95" in answer.about.warnings[0]


def test_a_client_s_log_counts_from_sending(tmp_path: Path) -> None:
    path = write_json(tmp_path / "result.json", serve(arrivals(100)))
    output = tmp_path / "steps.toml"
    answer = asked(
        "calibrate", str(path), "--model", "Qwen3-0.6B", "--hardware", "a100-sxm-80gb", "-o", str(output),
        "--max-seqs", str(SEATS), "--token-budget", str(BUDGET), "--kv-tokens", "200000", "--stack", "mine-1",
    )  # fmt: skip
    (found,) = answer["runs"]
    # whether a request just misses a step turns on microseconds, and shows in what a client measures
    assert found["steps"]["fixed_s"] == pytest.approx(8e-3, rel=0.02)
    assert found["steps"]["prompt_token_s"] == pytest.approx(4e-5, rel=0.05)
    assert max(abs(error) for half in ("fitted", "held_out") for error in found[half].values()) < 0.05
    assert (found["ttft_from"], found["kv_tokens"], found["stack"]) == ("sent", 200_000, "mine-1")
    assert answer["warnings"] == [
        "Qwen/Qwen3-0.6B, a100-sxm-80gb, TP1: the log does not say how the engine ran; taken for granted: --tp 1"
    ]
    assert any("200,000 tokens, as given" in text for text in answer["assumptions"])


# The file


def test_a_file_reads_back(fitted: tuple[CalibrateRequestsAnswer, Path]) -> None:
    answer, output = fitted
    (found,), again = answer.runs, load_steps(output)
    assert answer.files == (str(output),)
    assert again.steps == found.steps
    assert again.fitted == pytest.approx(found.fitted, abs=1e-4)
    assert again.held_out == pytest.approx(found.held_out, abs=1e-4)
    assert replace(again, fitted={}, held_out={}) == replace(found, fitted={}, held_out={})
    kind = kind_of("a100-sxm-80gb", 1)
    assert affine_steps(kind, again).decode(3, 1000) == pytest.approx(8e-3 + 3e-4, rel=0.01)


@pytest.mark.parametrize(
    ("gpu", "tp", "message"),
    [("a100-sxm-80gb", 2, "of tp 1, the instance has 2"), ("h100-sxm", 1, "gpu a100-sxm-80gb, the instance has h100")],
)  # fmt: skip
def test_step_times_of_another_instance_are_refused(
    fitted: tuple[CalibrateRequestsAnswer, Path], gpu: str, tp: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        affine_steps(kind_of(gpu, tp), load_steps(fitted[1]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "step times"', 'kind = "steps"', "kind is 'steps', expected 'step times'"),
        ('kind = "step times"', "", "no kind is stated"),
        ("tp = 1", "tp = 0", "tp: 0 is not a whole number, at least 1"),
        ("lag = true", 'lag = "yes"', "lag: 'yes' is not true or false"),
        ("fixed = ", "fixd = ", "missing key 'steps.fixed'; nearest present: 'steps.fixd'"),
        ("[held_out]", "[held_out]\nttft_p99 = 0.1", "unknown key 'held_out.ttft_p99'"),
        ('ttft_from = "queued"', 'ttft_from = "sometime"', "ttft_from"),
    ],
)
def test_a_bad_file_is_refused(
    fitted: tuple[CalibrateRequestsAnswer, Path], tmp_path: Path, old: str, new: str, message: str
) -> None:
    path, text = tmp_path / "bad.toml", fitted[1].read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_steps(path)
    assert str(path) in str(caught.value) and message in str(caught.value)


# What users see


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_the_page(log: Path, form: str) -> None:
    page = run("calibrate", str(log), "-f", form, "--detail")
    assert page.exit_code == 0, page.output
    for text in ("TTFT P50", "E2E P95", "held out", "every step", "8 ms", "KV tokens", "nothing written"):
        assert text in page.output, text


def test_several_runs_one_row_each_or_one_selected(log: Path, tmp_path: Path) -> None:
    other = write_csv(
        tmp_path / "other.csv", serve(arrivals(50, seed=2)), {**RUN, "model": "Qwen/Qwen3-1.7B"}
    )
    both = tmp_path / "both.csv"
    both.write_text(log.read_text() + other.read_text().partition("\n")[2])
    answer = asked("calibrate", str(both), "-o", str(tmp_path / "out"))
    assert [found["model"] for found in answer["runs"]] == ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"]
    assert sorted(Path(file).name for file in answer["files"]) == [
        f"Qwen-Qwen3-{size}--a100-sxm-80gb--tp1--vllm-0.0.0.toml" for size in ("0.6B", "1.7B")
    ]
    assert {load_steps(file).requests for file in answer["files"]} == {60, 25}
    (found,) = asked("calibrate", str(both), "--select", "model=Qwen/Qwen3-1.7B,tp=1")["runs"]
    assert found == {**answer["runs"][1], "date": found["date"]}
    one_file = run("calibrate", str(both), "-o", str(tmp_path / "one.toml"))
    assert one_file.exit_code == 2 and "the log holds 2 runs; pass a folder, or select one" in one_file.output
    none = run("calibrate", str(both), "--select", "model=Qwen3-8B")
    assert none.exit_code == 2 and "there are: Qwen/Qwen3-0.6B, Qwen/Qwen3-1.7B" in none.output


def test_requests_without_times_are_replayed_only(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "gaps.csv", serve(arrivals(80)))
    rows = list(csv.reader(path.open()))
    place = rows[0].index("e2e_from_queued_s")
    for row in rows[5:10]:
        row[place] = ""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    answer = asked("calibrate", str(path))
    assert answer["runs"][0]["requests"] == 35
    assert answer["warnings"][0].endswith("5 requests lack times and are only replayed")
    assert answer["runs"][0]["steps"]["fixed_s"] == pytest.approx(8e-3, rel=0.01)


def test_a_short_pool_is_said(log: Path) -> None:
    answer = asked("calibrate", str(log), "--kv-tokens", "6000")
    assert any("preemptions: the size of the KV pool counts" in text for text in answer["warnings"])


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (("rows", 30), (), "30 requests (gpu="),
        (("drop", "ttft_from_queued_s"), (), "has 0 with TTFT and with E2E or TPOT"),
        (("drop", "model"), (), "does not say the model: pass --model"),
        (("drop", "gpu"), (), "does not say the GPU: pass --hardware"),
        (("drop", "arrival_s"), (), "arrival_s"),
        (("set", "gpu", "Z9"), (), "unknown GPU 'Z9'"),
        (("set", "tp", "two"), (), "tp 'two' is not a whole number"),
        ((), ("--model", "absent"), "absent"),
        ((), ("--select", "model"), "write COLUMN=TEXT"),
        ((), ("--select", "tp=1,tp=2"), "a column stands there twice"),
        ((), ("--select", "colour=red"), "missing column 'colour'"),
        ((), ("--kv-tokens", "0"), "--kv-tokens"),
        ((), ("--max-seqs", "0"), "--max-seqs"),
        ((), ("-o", "mine.csv"), "a file of step times ends in .toml"),
        ((), ("LOG",), "calibrate one at a time"),
    ],
)
def test_bad_input_is_one_message(
    tmp_path: Path, change: tuple[object, ...], arguments: tuple[str, ...], message: str
) -> None:
    served = serve(arrivals(change[1] if change[:1] == ("rows",) else 50))  # type: ignore[arg-type]
    told = {**RUN, change[1]: change[2]} if change[:1] == ("set",) else RUN
    drop = {str(change[1]): True} if change[:1] == ("drop",) else {}
    path = write_csv(tmp_path / "log.csv", served, told, **drop)  # type: ignore[arg-type]
    result = run("calibrate", str(path), *(str(path) if part == "LOG" else part for part in arguments))
    assert result.exit_code == 2 and message in result.output, result.output
    assert "Traceback" not in result.output


def test_a_pool_too_small_for_a_request_has_no_answer(log: Path) -> None:
    result = run("calibrate", str(log), "--kv-tokens", "100")
    assert result.exit_code == 1 and "more than the whole pool" in result.output


def test_options_of_logs_are_refused_for_tables(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("m,n,k,latency_us\n1,64,64,5\n")
    result = run("calibrate", str(table), "--kv-tokens", "1000", "--no-lag")
    assert result.exit_code == 2 and "--kv-tokens, --lag: only for a log of requests" in result.output


def test_nothing_is_written_where_a_run_fails(log: Path, tmp_path: Path) -> None:
    few = write_csv(tmp_path / "few.csv", serve(arrivals(10)), {**RUN, "model": "Qwen/Qwen3-1.7B"})
    both = tmp_path / "both.csv"
    both.write_text(log.read_text() + few.read_text().partition("\n")[2])
    result = run("calibrate", str(both), "-o", str(tmp_path / "out"))
    assert result.exit_code == 2 and not (tmp_path / "out").exists()


def test_step_times_that_describe_something_else_are_not_written(log: Path, tmp_path: Path) -> None:
    """The second half is of an engine three times as slow: nothing fitted to the first predicts it."""
    pytest.importorskip("scipy")
    with log.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows[len(rows) // 2 :]:
        for column in row.keys() & {"ttft_from_queued_s", "e2e_from_queued_s", "tpot_s", "ttft_s", "e2e_s"}:
            row[column] = str(3 * float(row[column]))
    path, output = tmp_path / "slower.csv", tmp_path / "steps.toml"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    refused = run("calibrate", str(path), "-o", str(output))
    assert refused.exit_code == 2 and not output.exists()
    assert "held out, e2e_p50 is off by -6" in refused.output and "so nothing is written" in refused.output
    shown = asked("calibrate", str(path))  # the errors are told where nothing is to be written
    assert any("these times do not predict" in warning for warning in shown["warnings"])


# A real engine


@real
def test_a_real_engine_s_second_half_is_predicted(tmp_path: Path) -> None:
    """vLLM 0.19.0, saturated: P50 and P95 of TTFT, TPOT and E2E within 5 % in both halves of every run."""
    answer = asked("calibrate", str(REAL), "-o", str(tmp_path))
    models = [found["model"] for found in answer["runs"]]
    assert models == ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B"] and len(answer["files"]) == 2
    for found in answer["runs"]:
        assert (found["requests"], found["held_out_requests"]) == (150, 150)
        for half in ("fitted", "held_out"):
            assert set(found[half]) == set(ERRORS)
            assert max(map(abs, found[half].values())) < 0.05, (found["model"], half, json.dumps(found[half]))


def test_a_fit_is_a_plain_value(fitted: tuple[CalibrateRequestsAnswer, Path]) -> None:
    (found,) = fitted[0].runs
    assert isinstance(found, StepFit) and hash(found) == hash(replace(found, fitted={}))
