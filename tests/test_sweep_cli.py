"""``costmodel sweep``: what it prints, what it writes, how it fails; KV and copies besides."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from costmodel.cli import COMMANDS, main
from costmodel.questions.kv import ask_kv
from costmodel.questions.sweep import ask_sweep
from costmodel.questions.transfer import ask_transfer

STEP = (
    "step",
    "Llama-3.1-8B",
    "--hardware",
    "h100-sxm",
    "--phase",
    "decode",
    "--batch",
    "1:4",
    "--context",
    "512,1024",
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sweep", *arguments])


def test_it_stands_among_the_commands() -> None:
    assert "sweep" in COMMANDS
    told = run().output
    assert all(f"  {name} " in told for name in ("step", "recommend", "kv", "transfer"))


@pytest.mark.parametrize("question", ("step", "recommend", "kv", "transfer"))
def test_every_question_has_its_options_and_an_example(question: str) -> None:
    told = run(question, "--help").output
    assert f"costmodel sweep {question} " in told and "--workers" in told and "lo:hi:step" in told
    for option in {"step": ("--batch", "--stack"), "recommend": ("--rate", "--nics")}.get(
        question, ("--tokens",)
    ):
        assert option in told


def test_a_table_tells_the_grid_and_its_ends() -> None:
    told = run(*STEP, "--tp", "1,3").output
    for part in (
        "Sweep of step: 16 points",
        "8 answered, 8 refused; none written",
        "batch",
        "1 .. 4",
        "TP3 does not",
    ):
        assert part in told
    # Least: one sequence of 512 tokens; most: four of 1,024.
    assert "tp 1, batch 1, context 512" in told and "tp 1, batch 4, context 1,024" in told


@pytest.mark.parametrize("form", ("table", "markdown"))
def test_detail_shows_every_column(form: str) -> None:
    told = run(*STEP, "-f", form, "--detail").output
    assert (
        "refused" in told
        and "meta-llama/Llama-3.1-8B" in told
        and "Sources" in told.replace("sources", "Sources")
    )


def test_json_has_the_summary(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    answer = json.loads(run(*STEP, "-f", "json", "-o", str(path)).output)
    assert answer["schema"] == "costmodel.sweep/1" and answer["path"] == str(path)
    assert (answer["points"], answer["refused"], answer["reasons"]) == (8, 0, {})
    assert answer["rows"][0]["batch"] == 1 and answer["rows"][0]["reason"] is None
    assert {axis["column"]: axis["values"] for axis in answer["axes"]}["context"] == 2
    assert answer["extremes"][0]["least_at"]["context"] == 512 and answer["sources"]
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["batch"] for row in rows] == ["1", "1", "2", "2", "3", "3", "4", "4"]


def test_workers_write_the_same_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    assert run(*STEP, "-q", "-o", str(one)).exit_code == 0
    assert run(*STEP, "-q", "-o", str(two), "--workers", "2", "--chunk-points", "3").exit_code == 0
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "arguments, code, said",
    (
        (("stp",), 2, "unknown question 'stp'; did you mean 'step'?"),
        ((*STEP, "--tp", "3"), 1, "0 answered, 8 refused"),
        ((*STEP, "--isl", "5"), 2, "--isl means nothing in a decode step"),
        ((*STEP, "--tp", "2:1", "--dtype", "bf16,bf16"), 2, "2 problems"),
        ((*STEP, "--stack", ""), 2, "--stack: empty"),
        ((*STEP, "-o", "steps.txt"), 2, "ends in none of .csv, .csv.gz, .parquet"),
        ((*STEP, "--workers", "0"), 2, "--workers"),
        (("recommend", "Llama-3.1-8B", "--slo-ttft", "1s"), 2, "--slo-ttft: the closed form has no goodput"),
        (("kv", "Llama-3.1-8B"), 2, "a sweep of kv needs --tokens"),
    ),
)
def test_how_it_fails(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code and said in result.output


def test_verdicts_are_counted() -> None:
    lengths = ("--isl", "2048", "--osl", "64", "--rate", "1:4", "--topology", "1P1D")
    result = run("recommend", "Llama-3.1-8B", "--hardware", "h100-sxm", "--link", "ib-hdr", *lengths)
    assert result.exit_code == 2 and "write lo:hi:step" in result.output
    result = run(
        "recommend", "Llama-3.1-8B", "--hardware", "h100-sxm", "--link", "ib-hdr", *lengths[:-3], "1:4:1"
    )
    assert result.exit_code == 0 and "best" in result.output and "rate_per_s" in result.output


def rows(question: str, axes: dict[str, object]) -> list[dict[str, Any]]:
    (block,) = ask_sweep(question, axes)
    columns = [column.tolist() for column in block.values()]
    return [dict(zip(block, (None if v != v else v for v in row))) for row in zip(*columns)]


def test_kv_bytes_are_those_of_the_command() -> None:
    axes = {"model": "Llama-3.1-8B,deepseek-ai/DeepSeek-V2-Lite", "hardware": "h100-sxm", "tokens": "1,8192"}
    for row in rows("kv", axes):
        found = ask_kv(row["model"], row["tokens"], hardware="h100-sxm", tp=1)
        assert row["kv_bytes"] == found.kv_bytes and found.capacity is not None
        assert row["kv_cache_tokens"] == found.capacity.kv_cache_tokens and not row["refused"]
    # Of Llama-3.1-8B by hand: 2 (K, V) x 32 layers x 8 heads x 128 x 2 bytes.
    assert rows("kv", axes)[0]["kv_bytes_per_token"] == 2 * 32 * 8 * 128 * 2
    (none,) = rows("kv", {"model": "Llama-3.1-8B", "tokens": 5})
    assert none["kv_pool_bytes"] is None and not none["refused"]


def test_what_does_not_fit_is_flagged_and_keeps_its_bytes() -> None:
    alone, spread = rows("kv", {"model": "Llama-3.1-70B", "hardware": "l4", "tp": "1,16", "tokens": 1024})
    assert alone["refused"] and "does not fit on l4 TP1" in alone["reason"]
    assert alone["kv_pool_bytes"] is None and alone["kv_bytes"] == 1024 * 2 * 80 * 8 * 128 * 2
    assert not spread["refused"] and spread["largest_batch"] > 0


def test_copies_are_those_of_the_command() -> None:
    axes = {
        "model": "Llama-3.1-8B",
        "link": "ib-hdr,nvlink4",
        "nics": "1,4",
        "tokens": "100,9000",
        "control": "10ms",
    }
    found = rows("transfer", axes)
    assert len(found) == 8
    for row in found:
        answer = ask_transfer(row["model"], row["tokens"], row["link"], nics=row["nics"], control_s=0.01)
        for figure in ("wire_bytes", "wire_s", "bound_s", "handover_s"):
            assert row[figure] == pytest.approx(getattr(answer, figure), rel=1e-12)
    (hidden,) = rows(
        "transfer", {"model": "Llama-3.1-8B", "link": "ib-hdr", "tokens": 100, "overlap": "layerwise"}
    )
    assert hidden["refused"] and "--prefill-time" in hidden["reason"] and hidden["wire_s"] is None
