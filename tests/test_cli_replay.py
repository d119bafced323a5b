"""``costmodel replay``: the contract's keys, pages, files beside the answer, and mistakes that leave nothing behind."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from cli_runner import asked, run
from click.testing import CliRunner

from costmodel.cli import main
from costmodel.evaluate.tally import Tally

HEADER = "arrival_s,prompt_tokens,output_tokens"
ON = ("--model", "Qwen3-0.6B", "--hardware", "a100-sxm-80gb")
ACCOUNTS = (
    "queue_s", "admission_s", "load_s", "stretch_s", "link_s", "handover_s", "stalls_s", "gathering_s", "recompute_s",
)  # fmt: skip
STRATEGY = {
    "name", "stable", "utilisation", "goodput_per_gpu_per_s", "attainment", "ttft_p50_s", "ttft_p95_s",
    "ttft_p99_s", "ttft_p95_stages", "tpot_p50_s", "tpot_p99_s", "ledger", "copy_s", "interference_s",
    "stranding_s", "sharing_s", "splitting_s", "stage_scale", "kv_held_byte_s", "gpu_s", "requests", "finished",
    "preemptions", "requests_per_cpu_s", "ttft_p95_ci_s",
}  # fmt: skip
ABOUT = {"schema", "assumptions", "sources", "not_modelled", "warnings"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a trace of 60 requests at equal gaps, of which pairs arrive together."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{0.05 * (i // 2)},{100 + 7 * (i % 20)},{1 + i % 9}" for i in range(60)]
    (tmp_path / "trace.csv").write_text("\n".join([HEADER, *rows, ""]))
    return tmp_path


def test_keys_of_one_strategy_stand_at_the_top() -> None:
    found = asked("replay", "trace.csv", *ON, "--strategy", "chunked", "--slo-ttft", "1s")
    assert found.keys() >= STRATEGY | ABOUT and found["schema"] == "costmodel.replay/1"
    assert "strategies" not in found and (found["name"], found["trace"]) == ("chunked", "trace.csv")
    assert found["requests"] == found["finished"] == 60 and found["preemptions"] == 0
    assert found["attainment"] == 1 and found["slo_ttft_s"] == 1 and found["slo_tpot_s"] is None
    assert found["goodput_per_gpu_per_s"] is None and found["goodput_reason"]


def test_keys_of_several_strategies() -> None:
    found = asked("replay", "trace.csv", *ON)
    assert found.keys() >= ABOUT | {"best", "strategies"} and found["schema"] == "costmodel.replay/1"
    names = [strategy["name"] for strategy in found["strategies"]]
    assert names == ["colocated", "chunked", "disaggregated", "deflected"] and found["best"] in names
    for strategy in found["strategies"]:
        assert strategy.keys() >= STRATEGY
        ledger = strategy["ledger"]
        parts = sum(ledger[name] for name in ACCOUNTS)
        assert parts == pytest.approx(ledger["e2e_s"] - ledger["ideal_s"], abs=1e-9)
        assert sum(strategy["ttft_p95_stages"].values()) == pytest.approx(strategy["ttft_p95_s"], abs=1e-9)
    two = asked("replay", "trace.csv", *ON, "--strategy", "disaggregated", "--strategy", "colocated")
    assert [strategy["name"] for strategy in two["strategies"]] == ["disaggregated", "colocated"]


def test_pages() -> None:
    table = run("replay", "trace.csv", *ON, "-q")
    assert table.exit_code == 0 and table.stderr == "" and "Least mean delay: " in table.stdout
    more = run("replay", "trace.csv", *ON, "-q", "--detail").stdout
    assert "Ledger: mean seconds a request" in more and "Busy share over time, deflected" in more
    markdown = run("replay", "trace.csv", *ON, "-q", "-f", "markdown").stdout
    assert markdown.startswith("# Replay of trace.csv") and "|---" in markdown
    for page in (table.stdout, more, markdown):
        assert "None" not in page and "nan" not in page
        assert all(name in page for name in ("colocated", "chunked", "disagg.", "deflected"))


def test_requests_csv_adds_up(folder: Path) -> None:
    found = asked("replay", "trace.csv", *ON, "--requests-csv", "out.csv.gz", "--timeline", "line.json")
    files = sorted(path.name for path in folder.iterdir())
    names = ("chunked", "colocated", "deflected", "disaggregated")
    assert files == sorted(
        ["trace.csv", *(f"{s}.{n}.{e}" for n in names for s, e in (("out", "csv.gz"), ("line", "json")))]
    )
    for strategy in found["strategies"]:
        with gzip.open(f"out.{strategy['name']}.csv.gz", "rt") as file:
            rows = list(csv.DictReader(file))
        assert sorted(int(row["index"]) for row in rows) == list(range(60))
        for row in rows:
            parts = sum(float(row[name]) for name in ACCOUNTS)
            assert parts == pytest.approx(float(row["e2e_s"]) - float(row["ideal_s"]), abs=1e-9)
        assert sum(float(row["e2e_s"]) for row in rows) / 60 == pytest.approx(strategy["e2e_mean_s"])
        assert json.loads(Path(f"line.{strategy['name']}.json").read_text())
    asked("replay", "trace.csv", *ON, "--strategy", "chunked", "--requests-csv", "one.csv")
    assert Path("one.csv").exists()


def test_equal_arrivals_and_single_requests_are_legal(folder: Path) -> None:
    for rows in (["5,90,3"] * 60, ["1e9,90,1"], ["0,1,1", "0,1,1"]):
        (folder / "equal.csv").write_text("\n".join([HEADER, *rows, ""]))
        found = asked("replay", "equal.csv", *ON)
        for strategy in found["strategies"]:
            assert strategy["finished"] == len(rows) and strategy["stable"] and strategy["rate_per_s"] is None
            assert 0 < strategy["ttft_p50_s"] < 1  # from the arrival on, whatever the clock says


def test_overload_is_exit_code_1_without_percentiles(folder: Path) -> None:
    # a prefill of 8000 tokens takes 10 ms at the very least: 1.2e9 parameters in FLOPs a token at 312 TFLOP/s
    rows = [f"{i * 1e-3},8000,1" for i in range(4000)]
    (folder / "fast.csv").write_text("\n".join([HEADER, *rows, ""]))
    result = run("replay", "fast.csv", *ON, "--strategy", "colocated", "-f", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and not found["stable"] and found["ttft_p95_s"] is found["ledger"] is None
    assert found["backlog_per_s"] > 500 and "stopped after" in found["reason"]
    page = run("replay", "fast.csv", *ON, "--strategy", "colocated")
    assert page.exit_code == 1 and "No strategy keeps up" in page.stdout and "stopped after" in page.stdout
    assert not [
        line for line in page.stdout.splitlines() if "P95" in line and any(map(str.isdigit, line[30:]))
    ]
    kept = run("replay", "fast.csv", *ON, "--strategy", "colocated", "--transient", "-f", "json")
    found = json.loads(kept.stdout)
    assert (
        kept.exit_code == 1 and not found["stable"] and found["ttft_p95_s"] > 1 and found["finished"] == 4000
    )


GOOD = "0,9,9"
TRACES: dict[str, tuple[str | bytes, str]] = {
    "empty.csv": ("", "is empty"),
    "header.csv": (HEADER, "has a header but no request"),
    "unsorted.csv": (f"{HEADER}\n1,9,9\n0.5,9,9", "sort the trace by arrival"),
    "negative.csv": (f"{HEADER}\n{GOOD}\n-1,9,9", "arrival_s '-1'"),
    "negative_tokens.csv": (f"{HEADER}\n{GOOD}\n1,-9,9", "prompt_tokens '-9'"),
    "nan.csv": (f"{HEADER}\n{GOOD}\nnan,9,9", "arrival_s 'nan'"),
    "inf.csv": (f"{HEADER}\n{GOOD}\ninf,9,9", "arrival_s 'inf'"),
    "zero.csv": (f"{HEADER}\n{GOOD}\n1,9,0", "output_tokens '0'"),
    "twice.csv": (f"{HEADER},request_id\n0,9,9,a\n1,9,9,a", "stands in an earlier row too"),
    "huge.csv": (f"{HEADER}\n{GOOD}\n1,99999999999999999999,9", "at most 10,000,000"),
    "columns.csv": ("arrival_s,prompt_token\n0,9", "missing column 'output_tokens'"),
    "cells.csv": (f"{HEADER}\n{GOOD}\n1,9", "2 cells, the header has 3"),
    "late.csv": (f"{HEADER}\n" + f"{GOOD}\n" * 1000 + "x,9,9", "line 1002: arrival_s 'x'"),
    "binary.csv": (bytes(range(256)), "not UTF-8 text"),
    "broken.csv.gz": (b"\x1f\x8b\x08broken", "damaged gzip"),
    "broken.jsonl": ('{"timestamp": 0, "input_length": 5', "not JSON"),
}


def refused(*arguments: str) -> str:
    """The one message of a command that fails, which leaves no file behind."""
    before = sorted(Path().iterdir())
    result = run("replay", *arguments, "--requests-csv", "out.csv", "--timeline", "out.json.gz")
    assert result.exit_code == 2 and result.stdout == "", result.output
    assert result.stderr.startswith("error: ") and result.stderr.count("error: ") == 1
    assert sorted(Path().iterdir()) == before
    return result.stderr


@pytest.mark.parametrize("name", TRACES)
def test_a_bad_trace_is_one_message(name: str) -> None:
    content, message = TRACES[name]
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    told = refused(name, *ON, "--strategy", "chunked")
    assert message in told and name in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((".", *ON), "is a folder"),
        (("none.csv", *ON), "no such trace file"),
        (("hphdd", *ON), "no such trace file"),
        (("trace.csv", "--model", "Qwen3-0.6B"), "pass --hardware"),
        (("trace.csv", "--model", "Qwen3-0.7B", "--hardware", "a100-sxm-80gb"), "did you mean"),
        (("trace.csv", *ON, "--rule", "kairo"), "did you mean 'kairos'"),
        (("trace.csv", *ON, "--rule", "threshold:x"), "threshold:x"),
        (("trace.csv", *ON, "--rule", "kairos", "--strategy", "chunked"), "--strategy deflected"),
        (("trace.csv", *ON, "--rule", "system", "--strategy", "chunked"), "--strategy deflected"),
        (("trace.csv", *ON, "--alpha", "2", "--strategy", "chunked"), "--alpha"),
        (("trace.csv", *ON, "--rule", "system", "--alpha", "2"), "--alpha"),
        (("trace.csv", *ON, "--rule", "system", "--topology", "4"), "--topology 4"),
        (("trace.csv", *ON, "--rate", "2", "--concurrency", "2"), "--concurrency closes the loop"),
        (("trace.csv", *ON, "--arrivals", "poisson", "--concurrency", "2"), "--concurrency closes the loop"),
        (("trace.csv", *ON, "--rate", "2", "--speedup", "2"), "--rate and --speedup"),
        (("trace.csv", *ON, "--rate", "nan"), "--rate"),
        (("trace.csv", *ON, "--rate", "0"), "--rate"),
        (("trace.csv", *ON, "--cv", "2"), "--cv goes with --arrivals gamma or weibull"),
        (("trace.csv", *ON, "--arrivals", "gamma"), "needs --cv"),
        (("trace.csv", *ON, "--arrivals", "onoff", "--on-share", "0.5"), "needs --on-period"),
        (("trace.csv", *ON, "--on-share", "0.5"), "--on-share goes with --arrivals onoff"),
        (("hphd", *ON, "--speedup", "2"), "--speedup"),
        (("hphd", *ON, "--repeat", "2"), "--repeat"),
        (("trace.csv", *ON, "--concurrency", "0"), "--concurrency"),
        (("trace.csv", *ON, "--requests", "0"), "--requests"),
        (("trace.csv", *ON, "--strategy", "chunk"), "chunk"),
        (("trace.csv", *ON, "--sessions"), "session_id"),
        (("trace.csv", *ON, "--select", "gpu"), "column=value"),
        (("trace.csv", *ON, "--select", "gpu=a"), "'gpu'"),
        (("trace.csv", *ON, "--chunk", "5", "--token-budget", "6"), "pass one"),
        (("trace.csv", *ON, "--slo-tpot", "50"), "50ms"),
        (("trace.csv", *ON, "--topology", "0P2D"), "--topology"),
    ],
)
def test_a_mistake_is_one_message(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)


@pytest.mark.parametrize("option", ["--requests-csv", "--timeline"])
def test_a_file_that_cannot_be_written_is_named(option: str) -> None:
    result = run("replay", "trace.csv", *ON, "--strategy", "chunked", option, "none/out.csv")
    assert result.exit_code == 2 and result.stderr.startswith("error: none/out.csv: cannot be written")


def test_a_request_that_fits_no_instance_has_no_answer(folder: Path) -> None:
    (folder / "long.csv").write_text(f"{HEADER}\n{GOOD}\n1,9000000,9\n")
    result = run("replay", "long.csv", *ON, "--requests-csv", "out.csv", "-f", "json")
    assert result.exit_code == 1 and "more than the whole pool" in result.stderr
    assert json.loads(result.stdout).keys() == {"schema", "error", "reason"}
    assert not list(folder.glob("*out*"))


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.json", "out.json.gz"])
def test_an_interrupt_in_mid_run_leaves_no_half_written_file(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = "--timeline" if "json" in name else "--requests-csv"
    (folder / name).write_text("as it was")
    add, seen = Tally.add, 0

    def interrupted(self: Tally, record: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 30:
            raise KeyboardInterrupt
        add(self, record)

    monkeypatch.setattr(Tally, "add", interrupted)
    before = sorted(folder.iterdir())
    result = CliRunner().invoke(main, ["replay", "trace.csv", *ON, "--strategy", "chunked", option, name])
    assert seen == 30 and result.exit_code != 0 and "Traceback" not in result.output
    assert sorted(folder.iterdir()) == before and (folder / name).read_text() == "as it was"
