"""Stacks as a user calls them: shown, passed to steps and comparisons, calibrated, and named in what is printed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from cli_runner import asked, run

from costmodel.inputs.stack import load_stack

STEP = (
    "step",
    "Llama-3.1-8B",
    "--hardware",
    "h100-sxm",
    "--phase",
    "decode",
    "--batch",
    "8",
    "--context",
    "1024",
)
RECOMMEND = (
    "recommend", "Llama-3.1-8B", "--hardware", "h100-sxm", "--topology", "2P2D", "--isl", "1024", "--osl", "64",
    "--rate", "4", "--method", "closed",
)  # fmt: skip


def test_stacks_are_listed_and_shown() -> None:
    rows = asked("show", "stacks")["entries"]
    assert {"vllm-2026", "splitwise-2023"} <= {row["name"] for row in rows}
    shown = run("show", "stacks", "splitwise-2023")
    assert shown.exit_code == 0 and "layer_floor" in shown.output and "splitwise-sim" in shown.output


def test_a_step_says_its_stack_and_takes_its_parameters() -> None:
    plain, stacked = asked(*STEP), asked(*STEP, "--stack", "vllm-2026")
    fit = load_stack("vllm-2026").fits["h100-sxm"]
    # 32 layers wait so long each, and each launch is so much of what it is alone
    host = next(op for op in stacked["operators"] if op["kind"] == "host_layers")
    assert host["time_s"] == pytest.approx(32 * fit.parameters.layer_latency)
    assert any("vllm-2026" in text for text in stacked["assumptions"])
    assert any("vllm-2026" in text for text in stacked["sources"])
    assert any("--stack" in text for text in plain["not_modelled"])


def test_the_constant_of_ttft_reaches_a_comparison() -> None:
    plain, stacked = asked(*RECOMMEND), asked(*RECOMMEND, "--stack", "vllm-2026")
    fit = load_stack("vllm-2026").fits["h100-sxm"]
    for before, after in zip(plain["strategies"], stacked["strategies"]):
        gained = after["ttft_mean_s"] - before["ttft_mean_s"]
        assert gained == pytest.approx(fit.parameters.request_latency, abs=2e-3)  # steps move a little, too
    assert any("stack vllm-2026" in text for text in stacked["assumptions"])


def test_unknown_stacks_and_factors_below_physics_are_refused(tmp_path: Path) -> None:
    wrong = run(*STEP, "--stack", "vllm-2025")
    assert wrong.exit_code == 2 and "vllm-2026" in wrong.output
    fast = tmp_path / "fast.toml"
    text = 'engine = "e"\nversion = "1"\ndate = "d"\nsource = "s"\n[fits.any]\nnarrow_factor = 0.5\n'
    fast.write_text(text + 'fitted_on = "x"\n[fits.any.errors]\n')
    refused = run(*STEP, "--dtype", "fp8", "--stack", str(fast))
    assert refused.exit_code == 2 and "faster than its peak" in refused.output


def loops(path: Path, factor: float) -> Path:
    """Closed loops of an engine whose steps are ``factor`` times the tool's own, with 30 ms before each request."""
    rows: list[dict[str, Any]] = []
    for tp in (1, 2, 4):
        for clients in (1, 4):
            kind = ("Llama-3.1-8B", "--hardware", "h100-sxm", "--tp", str(tp))
            context = str(1024 + 128 // 2)
            decode = asked("step", *kind, "--phase", "decode", "--batch", str(clients), "--context", context)
            prompt = asked("step", *kind, "--phase", "prefill", "--isl", "1024")
            step, prefill = factor * decode["time_s"], factor * prompt["time_s"]
            tpot = step + (clients - 1) / 128 * prefill
            # the wait by hand for 1 client is 0; for 4 by bisection of W = r D / (2 (1 - r))
            cycle = 0.03 + 1.5 * step + prefill + 127 * tpot
            low, high = 0.0, 3 * prefill
            for _ in range(60):
                wait = (low + high) / 2
                busy = clients / (cycle + wait) * (clients - 1) / clients * prefill
                low, high = (wait, high) if busy * prefill / (2 * (1 - busy)) > wait else (low, wait)
            rows.append({
                "model": "Llama-3.1-8B", "gpu": "h100-sxm", "backend": "own", "backend_version": "1.0",
                "precision": "bf16", "tp_size": tp, "isl": 1024, "osl": 128, "concurrency": clients,
                "ttft_s": 0.03 + low + 1.5 * step + prefill, "tpot_s": tpot,
            })  # fmt: skip
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_stack_of_ones_own_is_calibrated_and_used(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    table, output = loops(tmp_path / "loops.csv", 1.0), tmp_path / "mine.toml"
    answer = asked("calibrate", str(table), "-o", str(output))
    assert answer["schema"] == "costmodel.calibrate-stack/1" and answer["files"] == [str(output)]
    (stack,) = answer["stacks"]
    (fit,) = stack["fits"]
    assert fit["parameters"]["request_latency"] == pytest.approx(0.03, rel=0.01)
    assert len(fit["fitted_on"]) == 2 and fit["errors"]["tpot"] < 0.005
    asked(*STEP, "--stack", str(output))
    page = run("calibrate", str(table))
    assert page.exit_code == 0 and "nothing written: pass -o FILE.toml" in page.output


def test_one_configuration_is_too_few(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    whole = loops(tmp_path / "loops.csv", 1.0).read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join([whole[0], *(line for line in whole[1:] if ",1,1024," in line)]))
    refused = run("calibrate", str(few))
    assert refused.exit_code == 2 and "two configurations" in refused.output and "TP1" in refused.output


def test_a_table_of_other_things_is_calibrated_apart(tmp_path: Path) -> None:
    table = loops(tmp_path / "loops.csv", 1.0)
    other = tmp_path / "gemm.csv"
    other.write_text("m,n,k,latency_ms,gpu,stack\n1,1024,1024,0.01,h100-sxm,own-1\n")
    refused = run("calibrate", str(table), str(other))
    assert refused.exit_code == 2 and "calibrate it apart" in refused.output


def test_the_pool_of_a_gpu_has_a_band() -> None:
    answer = asked("kv", "Llama-3.1-8B", "--tokens", "8192", "--hardware", "h100-sxm")["capacity"]
    # 1.75 times the root of (0.17 % of weights)^2 + (1.33 % of activation)^2 + (3.8 % outside torch)^2
    parts = (
        0.0017 * answer["weights_bytes"], 0.0133 * answer["activation_bytes"], 0.038 * answer["non_torch_bytes"],
    )  # fmt: skip
    edge = 1.75 * sum(part**2 for part in parts) ** 0.5
    assert answer["kv_pool_bytes"] - answer["kv_pool_low_bytes"] == pytest.approx(edge)
    assert answer["kv_pool_high_bytes"] - answer["kv_pool_bytes"] == pytest.approx(edge)


def test_experts_that_are_chosen_unevenly_take_longer() -> None:
    step = (
        "step", "DeepSeek-V2-Lite", "--hardware", "h100-sxm", "--tp", "8", "--ep", "8", "--phase", "prefill", "--isl",
        "4096",
    )  # fmt: skip
    even, uneven = asked(*step), asked(*step, "--expert-skew", "1")
    assert uneven["time_s"] > 1.05 * even["time_s"] and even["bound_s"] == uneven["bound_s"]
    assert any("variation of 1" in text for text in uneven["assumptions"])
    assert (
        run(*step, "--expert-skew", "-1").exit_code == 2 and run(*step, "--expert-skew", "11").exit_code == 2
    )


def test_validate_prints_how_often_bands_hold() -> None:
    page = run("validate", "step")
    assert page.exit_code == 0 and "in band" in page.output
    rows = json.loads(run("validate", "step", "-f", "json").stdout)["rows"]
    held = next(r for r in rows if (r["gpu"], r["split"], r["regime"]) == ("all", "held_out", "all"))
    assert 0.8 <= held["covered"] < 1 and held["below_bound"] == 0


def test_a_wrong_unit_makes_no_stack(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    table, output = loops(tmp_path / "loops.csv", 1.0), tmp_path / "mine.toml"
    table.write_text(table.read_text().replace("ttft_s,tpot_s", "ttft_ms,tpot_ms"))
    refused = run("calibrate", str(table), "-o", str(output))
    assert refused.exit_code == 2 and not output.exists()


def test_a_name_stays_inside_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    table, folder = loops(tmp_path / "loops.csv", 1.0), tmp_path / "out"
    table.write_text(table.read_text().replace("own,1.0", "../own,1.0"))
    (written,) = asked("calibrate", str(table), "-o", str(folder))["files"]
    assert Path(written).parent == folder and Path(written).exists()
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".toml"] == []


def test_a_stack_of_ones_own_predicts_what_validate_compares(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    table, output = loops(tmp_path / "loops.csv", 1.0), tmp_path / "mine.toml"
    asked("calibrate", str(table), "-o", str(output))
    rows = asked("validate", "end_to_end", "--measurements", str(table), "--stack", str(output))["whole"]
    assert len(rows) == 12 and {row["fit"] for row in rows} == {f"{output}, h100-sxm"}
    assert max(abs(row["error"]) for row in rows) < 0.01
    for row in rows:
        assert row["low_s"] <= row["predicted_s"] <= row["high_s"]


def test_a_wider_band_than_capacity_is_turned_and_not_lost() -> None:
    """At this rate the slower edge of the whole step exceeds what disaggregation can take."""
    answer = asked(
        "recommend", "DeepSeek-V2-Lite", "--hardware", "a100-sxm-80gb", "--workload", "lpld", "--method", "closed",
        "--stack", "vllm-2026", "--rate", "22",
    )  # fmt: skip
    assert answer["margin_low"] is not None and answer["margin_low"] < 1 < answer["margin_high"]
    assert answer["verdict"] == "too_close_to_call"
