"""``costmodel validate memory``: errors against start-up logs, and figures that follow the file given."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from cli_runner import asked, run

from costmodel.errors import InputError
from costmodel.questions.validate import ErrorRow, ValidateAnswer, ask_validate

GIB = 2**30
COLUMNS = (
    "engine", "engine_version", "model", "gpu", "tp", "pp", "dtype", "quantization", "kv_cache_dtype",
    "max_model_len", "gpu_memory_utilization", "total_memory_gib", "weights_gib", "activation_gib",
    "non_torch_gib", "kv_cache_gib", "kv_cache_tokens", "kv_cache_blocks", "max_concurrency", "source",
)  # fmt: skip
# Two rows of github.com/jgchn/llm-d-planner@3c876c8a (Apache-2.0), accuracy/results/v0.19.0/results_raw.csv
LATENT = dict(zip(COLUMNS, (
    "vllm", "0.19.0", "deepseek-ai/DeepSeek-V2-Lite-Chat", "H100-80GB", "1", "1", "bfloat16", "", "auto", "8192",
    "0.95", "79.19", "29.43", "1.93", "0.26", "43.61", "1505552", "94097", "183.78", "llm-d-planner",
)))  # fmt: skip
#: Columns of figures that are compared, and the regimes of their errors.
FIGURES = (
    "weights_gib", "activation_gib", "non_torch_gib", "kv_cache_gib", "kv_cache_tokens", "kv_cache_blocks",
    "max_concurrency",
)  # fmt: skip
REGIMES = {"all", "weights", "kv_tokens", "kv_pool", "blocks", "concurrency", "activation", "non_torch"}
LLAMA = {
    **LATENT, "model": "meta-llama/Llama-3.1-8B-Instruct", "weights_gib": "14.99", "activation_gib": "1.89",
    "kv_cache_gib": "58.11", "kv_cache_tokens": "476016", "kv_cache_blocks": "29751", "max_concurrency": "58.11",
}  # fmt: skip
QWEN = {
    **LATENT, "model": "Qwen/Qwen2.5-7B-Instruct", "weights_gib": "14.25", "activation_gib": "2.21",
    "kv_cache_gib": "58.53", "kv_cache_tokens": "1096000", "kv_cache_blocks": "68500", "max_concurrency": "133.79",
}  # fmt: skip
#: Weights further than 1 % from the log, and why.
WEIGHTS_APART = {
    (
        "openai/gpt-oss-20b",
        2,
    ): "two GPUs hold 1,440 columns of an expert each, which the 4-bit kernel pads further",
}


@pytest.fixture(scope="module")
def packaged() -> ValidateAnswer:
    return ask_validate("memory")


def write(path: Path, *rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def summary(answer: ValidateAnswer, regime: str, split: str = "all", gpu: str = "all") -> ErrorRow:
    (found,) = (row for row in answer.rows if (row.regime, row.split, row.gpu) == (regime, split, gpu))
    return found


# The packaged measurements


def test_every_packaged_row_is_compared(packaged: ValidateAnswer) -> None:
    assert [row.skipped for row in packaged.skipped] == []
    assert len(packaged.compared) >= 54
    assert {row.gpu for row in packaged.compared} >= {"h100-sxm", "a100-sxm-80gb", "h200-sxm"}


def test_weights_within_one_percent(packaged: ValidateAnswer) -> None:
    errors = {
        (row.model, row.tp): row.errors["weights"] for row in packaged.compared if "weights" in row.errors
    }
    assert len([row for row in packaged.compared if "weights" in row.errors]) >= 50
    apart = {key for key, error in errors.items() if abs(error) > 0.01}
    assert apart <= set(WEIGHTS_APART)
    assert all(abs(errors[key]) < 0.04 for key in apart)


def test_tokens_within_half_a_percent_and_three_at_most(packaged: ValidateAnswer) -> None:
    sizes = [abs(row.errors["kv_tokens"]) for row in packaged.compared
             if "kv_tokens" in row.errors and row.incomplete is None]  # fmt: skip
    assert len(sizes) >= 44
    assert median(sizes) <= 0.005 and max(sizes) <= 0.03
    # held out rows alone do, too
    apart = summary(packaged, "kv_tokens", "held_out")
    assert apart.measured_rows >= 20 and apart.n >= 15
    assert apart.median <= 0.005 and apart.worst <= 0.03
    # the report those rows come from: 6.6 % in the mean
    assert summary(packaged, "kv_pool").mape < 0.066


def test_deepseek_v2_lite_chat_as_logged(packaged: ValidateAnswer) -> None:
    (row,) = (row for row in packaged.compared if row.model == "deepseek-ai/DeepSeek-V2-Lite-Chat")
    assert row.logged["weights_bytes"] == 29.43 * GIB and row.logged["kv_cache_tokens"] == 1_505_552
    assert row.predicted["kv_pool_bytes"] / GIB == pytest.approx(43.61, rel=0.003)
    assert row.predicted["kv_cache_tokens"] == pytest.approx(1_505_552, rel=0.003)
    assert row.split == "fitted"  # its 0.13 GiB of absorbed copies were read off this log


def test_rows_count_as_fitted_where_their_model_was_in_the_fit(packaged: ValidateAnswer) -> None:
    """The models whose logs gave the coefficients, as hardware/engines/vllm.toml says of 0.17 and later."""
    fitted = {
        "meta-llama/Llama-3.1-8B-Instruct", "google/gemma-2-27b-it", "microsoft/phi-4",
        "Qwen/Qwen2.5-72B-Instruct", "ibm-granite/granite-3.1-8b-instruct", "google/gemma-3-4b-it",
        "mistralai/Mistral-Small-3.1-24B-Instruct-2503", "deepseek-ai/DeepSeek-V2-Lite-Chat",
    }  # fmt: skip
    for row in packaged.compared:
        if row.stack == "vllm 0.19.0":
            assert (row.split == "fitted") is (row.model in fitted), row.model
    parts = [summary(packaged, "weights", split).n for split in ("fitted", "held_out", "all")]
    assert parts[0] + parts[1] == parts[2] and min(parts) > 0


def test_rows_that_leave_something_open_enter_with_their_weights_alone(packaged: ValidateAnswer) -> None:
    incomplete = [row for row in packaged.compared if row.incomplete]
    assert {row.stack for row in incomplete} == {"vllm", "sglang"}
    complete = [row for row in packaged.compared if not row.incomplete]
    activation, weights = summary(packaged, "activation"), summary(packaged, "weights")
    assert activation.measured_rows == sum("activation" in row.errors for row in complete)
    assert weights.measured_rows == sum("weights" in row.errors for row in packaged.compared)
    warned = " ".join(packaged.about.warnings)
    assert all(row.model in warned for row in incomplete)


def configurations(answer: ValidateAnswer, regime: str) -> list[float]:
    """Errors of a regime, rows with the same prediction for the same layout and settings once, by their mean."""
    found: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in answer.compared:
        if regime in row.errors and (regime == "weights" or not row.incomplete):
            same = [row.predicted.get(key) for key in ("weights_bytes", "kv_pool_bytes", "kv_cache_tokens")]
            found[row.model, row.gpu, row.stack, row.tp, row.pp, *same].append(row.errors[regime])
    return [fmean(errors) for errors in found.values()]


def test_summaries_are_those_of_the_rows(packaged: ValidateAnswer) -> None:
    for regime in ("weights", "kv_tokens", "kv_pool", "activation", "blocks", "concurrency", "non_torch"):
        errors = configurations(packaged, regime)
        found, sizes = summary(packaged, regime), [abs(error) for error in errors]
        assert found.n == len(errors) <= found.measured_rows
        assert found.mape == pytest.approx(sum(sizes) / len(sizes))
        assert found.bias == pytest.approx(sum(errors) / len(errors))
        assert found.median == pytest.approx(median(sizes)) and found.worst == max(sizes)
        assert found.median <= found.p90 <= found.worst
    both = summary(packaged, "all")
    weights, tokens = summary(packaged, "weights"), summary(packaged, "kv_tokens")
    assert (both.n, both.measured_rows) == (
        weights.n + tokens.n,
        weights.measured_rows + tokens.measured_rows,
    )


def test_repeated_rows_count_once_by_their_mean(tmp_path: Path) -> None:
    """Three logs of one start, of weights w, 2 w and 4 w: errors e, (1 + e) / 2 - 1, (1 + e) / 4 - 1, mean of them."""
    rows = [{**LLAMA, "weights_gib": f"{14.99 * factor}"} for factor in (1, 2, 4)]
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", *rows, LATENT))
    once = answer.compared[0].errors["weights"]
    mean = ((1 + once) * (1 + 1 / 2 + 1 / 4)) / 3 - 1
    llama = summary(answer, "weights")
    assert (llama.n, llama.measured_rows) == (2, 4)
    assert llama.worst == pytest.approx(-mean) and llama.worst == pytest.approx(1 - 7 / 12, abs=1e-3)
    assert llama.bias == pytest.approx((mean + answer.compared[3].errors["weights"]) / 2)
    # another share is another configuration, also where the figure compared stays the same
    apart = [{**LLAMA, "gpu_memory_utilization": share} for share in ("0.95", "0.90")]
    found = summary(ask_validate(measurements=write(tmp_path / "apart.csv", *apart)), "weights")
    assert (found.n, found.measured_rows) == (2, 2)


# Figures follow the file


def test_errors_follow_the_logged_figures(tmp_path: Path) -> None:
    """p / (2 l) - 1 = (p / l - 1) / 2 - 1 / 2: twice the tokens logged halve the error and take a half off."""
    once = ask_validate(measurements=write(tmp_path / "one.csv", LATENT, LLAMA))
    doubled = [{**row, "kv_cache_tokens": str(2 * int(row["kv_cache_tokens"]))} for row in (LATENT, LLAMA)]
    twice = ask_validate(measurements=write(tmp_path / "two.csv", *doubled))
    before, after = summary(once, "kv_tokens"), summary(twice, "kv_tokens")
    assert (before.n, after.n) == (2, 2)
    assert abs(before.bias) < 0.01
    assert after.bias == pytest.approx(before.bias / 2 - 0.5, rel=1e-12)
    assert after.mape == pytest.approx(-after.bias) and after.worst < 0.51
    # weights, which did not change, are the same
    assert summary(twice, "weights") == summary(once, "weights")
    for old, new in zip(once.compared, twice.compared):
        assert new.predicted == old.predicted
        assert new.errors["kv_tokens"] == pytest.approx(
            old.predicted["kv_cache_tokens"] / (2 * old.logged["kv_cache_tokens"]) - 1
        )


def test_errors_follow_the_settings_of_a_row(tmp_path: Path) -> None:
    """A tenth less of 79.19 GiB at 31,104 bytes a token: 273,374 tokens fewer, give or take a block."""
    less = {**LATENT, "gpu_memory_utilization": "0.85"}
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", LATENT, less))
    one, two = (row.predicted["kv_cache_tokens"] for row in answer.compared)
    assert one - two == pytest.approx(0.1 * 79.19 * GIB / 31_104, abs=16)
    # half of the memory it saw
    half = ask_validate(measurements=write(tmp_path / "half.csv", {**LATENT, "total_memory_gib": "70"}))
    gone = one - half.compared[0].predicted["kv_cache_tokens"]
    assert gone == pytest.approx(0.95 * 9.19 * GIB / 31_104, abs=16)


def test_fitted_and_held_out_rows_of_a_file(tmp_path: Path) -> None:
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", QWEN, LLAMA, LLAMA))
    assert [row.split for row in answer.compared] == ["held_out", "fitted", "fitted"]
    found = [summary(answer, "kv_tokens", split) for split in ("all", "fitted", "held_out")]
    assert [(row.n, row.measured_rows) for row in found] == [(2, 3), (1, 2), (1, 1)]
    assert math.isclose(summary(answer, "kv_tokens", "held_out").bias, answer.compared[0].errors["kv_tokens"])


def test_figures_that_are_not_logged_are_not_compared(tmp_path: Path) -> None:
    bare = {**LATENT, **dict.fromkeys(FIGURES, "")}
    (row,) = ask_validate(
        measurements=write(tmp_path / "rows.csv", {**bare, "weights_gib": "29.43"})
    ).compared
    assert set(row.errors) == {"weights"} and set(row.predicted) == {"weights_bytes"}
    (row,) = ask_validate(measurements=write(tmp_path / "rows.csv", LATENT)).compared
    assert set(row.errors) == set(REGIMES) - {"all"}


def test_blocks_concurrency_and_memory_outside_torch(tmp_path: Path) -> None:
    """Blocks and tokens of whole blocks err alike; concurrency, too, at one length; 0.25 against 0.26 GiB."""
    (row,) = ask_validate(measurements=write(tmp_path / "rows.csv", LATENT)).compared
    assert row.predicted["kv_cache_blocks"] * 16 == row.predicted["kv_cache_tokens"]
    assert row.errors["blocks"] == pytest.approx(row.errors["kv_tokens"], rel=1e-9)
    assert row.errors["concurrency"] == pytest.approx(row.predicted["kv_cache_blocks"] / 512 / 183.78 - 1)
    assert row.errors["non_torch"] == pytest.approx(0.25 / 0.26 - 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"engine_version": ""}, "version is not stated"),
        ({"engine_version": "0.19 (guess)"}, "version is uncertain: 0.19 (guess)"),
        ({"kv_cache_tokens": "~1505552"}, "approximate"),
    ],
)
def test_why_a_row_is_incomplete(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", LLAMA, {**LATENT, **changes}))
    assert [row.incomplete is None for row in answer.compared] == [True, False]
    assert reason in str(answer.compared[1].incomplete)
    assert (summary(answer, "kv_tokens").n, summary(answer, "weights").n) == (1, 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "acme/Unheard-Of-9B"}, "no packaged model is called 'acme/Unheard-Of-9B'"),
        ({"gpu": "B9000"}, "unknown GPU 'B9000'"),
        ({"engine": "nothing"}, "unknown engine 'nothing'"),
        ({"engine_version": "99.0"}, "known up to"),
        ({"tp": ""}, "tp is not stated"),
        ({"tp": "two"}, "tp is 'two'; expected a number"),
        ({"tp": "3"}, "does not divide"),
        ({"gpu_memory_utilization": ""}, "gpu_memory_utilization is not stated"),
        ({"gpu_memory_utilization": "95"}, "memory share 95.0"),
        ({"gpu_memory_utilization": "0.2"}, "does not fit"),
        ({"quantization": "awq"}, "quantised (awq), the packaged one is not"),
        (dict.fromkeys(FIGURES, ""), "states neither"),
        # odd cells
        ({"weights_gib": "inf"}, "weights_gib is 'inf'; expected a number above 0"),
        ({"weights_gib": "nan"}, "weights_gib is 'nan'; expected a number above 0"),
        ({"weights_gib": "-1"}, "weights_gib is '-1'; expected a number above 0"),
        ({"weights_gib": "0"}, "weights_gib is '0'; expected a number above 0"),
        ({"weights_gib": "9" * 400}, "weights_gib is '9999"),
        ({"weights_gib": "1e400"}, "weights_gib is '1e400'; expected a number above 0"),
        ({"weights_gib": "x" * 50_000}, "weights_gib is 'xxxx"),
        ({"kv_cache_tokens": "-5"}, "kv_cache_tokens is '-5'; expected a number above 0"),
        ({"max_concurrency": "-inf"}, "max_concurrency is '-inf'; expected a number above 0"),
        ({"non_torch_gib": "nan"}, "non_torch_gib is 'nan'; expected a number above 0"),
        ({"kv_cache_blocks": "many"}, "kv_cache_blocks is 'many'; expected a number above 0"),
        ({"tp": "9" * 5000}, "tp is '9999"),
        ({"tp": "-1"}, "tp is '-1'; expected a number above 0"),
        ({"tp": "1.5"}, "tp is '1.5'; expected a number above 0"),
        ({"pp": "nan"}, "pp is 'nan'; expected a number above 0"),
        ({"pp": "4000"}, "more than the 27 layers"),
        ({"gpu_memory_utilization": "nan"}, "gpu_memory_utilization is 'nan'; expected a number above 0"),
        ({"gpu_memory_utilization": "-0.9"}, "gpu_memory_utilization is '-0.9'; expected a number above 0"),
        ({"total_memory_gib": "inf"}, "total_memory_gib is 'inf'; expected a number above 0"),
        ({"total_memory_gib": "0.001"}, "does not fit"),
        ({"max_model_len": "-8192"}, "max_model_len is '-8192'; expected a number above 0"),
        ({"max_model_len": "8k"}, "max_model_len is '8k'; expected a number above 0"),
        ({"dtype": "bf17"}, "unknown dtype 'bf17'"),
        ({"dtype": "torch.bfloat17"}, "unknown dtype 'bfloat17'; did you mean 'bfloat16'"),
        ({"kv_cache_dtype": "fp9"}, "unknown KV dtype 'fp9'"),
        ({"kv_cache_dtype": "fp8_ds_ml"}, "unknown KV dtype 'fp8_ds_ml'; did you mean 'fp8_ds_mla'"),
        ({"engine_version": "latest"}, "engine version 'latest'"),
        ({"engine_version": "1" * 5000}, "engine version '111"),
    ],
)
def test_rows_that_cannot_be_compared_say_why(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", {**LATENT, **changes}, LLAMA))
    assert len(answer.compared) == len(answer.skipped) == 1
    assert reason in str(answer.skipped[0].skipped) and len(str(answer.skipped[0].skipped)) < 400
    assert summary(answer, "kv_tokens").n == 1


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ({"dtype": "torch.bfloat16"}, {}),
        ({"dtype": "auto"}, {}),
        ({"kv_cache_dtype": "bfloat16"}, {"kv_cache_dtype": "auto"}),
        ({"kv_cache_dtype": "fp8_e4m3"}, {"kv_cache_dtype": "fp8"}),
        ({"kv_cache_dtype": "fp8 (measured)"}, {"kv_cache_dtype": "fp8"}),
        ({"kv_cache_tokens": "1,505,552"}, {}),
    ],
)
def test_figures_and_dtypes_as_logs_write_them(
    tmp_path: Path, written: dict[str, str], same: dict[str, str]
) -> None:
    answer = ask_validate(
        measurements=write(tmp_path / "rows.csv", {**LATENT, **written}, {**LATENT, **same})
    )
    one, two = answer.compared
    assert (one.predicted, one.errors) == (two.predicted, two.errors)


def test_a_cell_beyond_what_csv_takes_is_one_message(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", {**LATENT, "source": "x" * 200_000})
    with pytest.raises(InputError, match="line 2: is not CSV: field larger than field limit"):
        ask_validate(measurements=path)
    result = run("validate", "memory", "--measurements", str(path))
    assert result.exit_code == 2 and "Traceback" not in result.output


# Files that cannot be read


@pytest.mark.parametrize(
    "column", ["engine", "engine_version", "model", "gpu", "tp", "pp", "gpu_memory_utilization"]
)
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    path = write(tmp_path / "rows.csv", LATENT, columns=tuple(name for name in COLUMNS if name != column))
    with pytest.raises(InputError, match=f"column '{column}' is missing"):
        ask_validate(measurements=path)


def test_every_missing_column_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", LATENT, columns=("engine", "model"))
    with pytest.raises(InputError) as caught:
        ask_validate(measurements=path)
    assert len(caught.value.problems) == 5 and str(path) in str(caught.value)


@pytest.mark.parametrize(("cut", "cells"), [(-1, 19), (1, 21)])
def test_ragged_rows_are_refused(tmp_path: Path, cut: int, cells: int) -> None:
    path = write(tmp_path / "rows.csv", LLAMA, LATENT)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].rsplit(",", 1)[0] if cut < 0 else lines[2] + ",more"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=f"line 3: {cells} cells; expected 20, as the header has"):
        ask_validate(measurements=path)


def test_empty_and_unreadable_files(tmp_path: Path) -> None:
    empty, header, binary = tmp_path / "empty.csv", tmp_path / "header.csv", tmp_path / "binary.csv"
    empty.write_text("", encoding="utf-8")
    write(header)
    binary.write_bytes(b"\xff\xfe\x00engine")
    (tmp_path / "nothing").mkdir()
    for path, said in (
        (empty, "holds no rows"),
        (header, "holds no rows"),
        (binary, "is not UTF-8 text"),
        (tmp_path / "absent.csv", "cannot be read"),
        (tmp_path / "nothing", "holds no .csv or .csv.gz file"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            ask_validate(measurements=path)
        assert str(path) in str(caught.value)
        result = run("validate", "memory", "--measurements", str(path))
        assert result.exit_code == 2 and said in result.output


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="unknown kind of validation 'memry'; did you mean 'memory'"):
        ask_validate("memry")
    assert run("validate", "memry").exit_code == 2


def test_the_command_prints_rows_and_summaries(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", LATENT, LLAMA)
    answer: dict[str, Any] = asked("validate", "memory", "--measurements", str(path))
    assert answer["schema"] == "costmodel.validate/1" and len(answer["compared"]) == 2
    (tokens,) = (row for row in answer["rows"]
                 if (row["gpu"], row["regime"], row["split"]) == ("all", "kv_tokens", "all"))  # fmt: skip
    assert tokens["n"] == 2 and tokens["mape"] < 0.005
    table = run("validate", "memory", "--measurements", str(path))
    assert table.exit_code == 0
    assert "1,505,552" in table.output and "29.43" in table.output
    assert json.loads(json.dumps(answer)) == answer


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", LATENT)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(ask_validate(measurements=path).compared) == 1


def test_a_packed_table_and_cells_over_several_lines(tmp_path: Path) -> None:
    rows = [LATENT, {**LLAMA, "source": 'a log,\nread "twice"'}]
    path = write(tmp_path / "rows.csv", *rows)
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    plain, unpacked = ask_validate(measurements=path), ask_validate("memory", measurements=packed)
    assert plain.rows == unpacked.rows and plain.compared == unpacked.compared
    assert plain.compared[1].source == 'a log,\nread "twice"'


def test_logs_of_which_none_can_be_compared_say_why(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", {**LATENT, "gpu": "B9000"}, {**LATENT, "tp": "3"})
    with pytest.raises(InputError, match="nothing of memory could be compared") as caught:
        ask_validate("memory", measurements=path)
    assert "unknown GPU 'B9000'" in str(caught.value) and "does not divide" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
    ],
)
def test_gpus_as_drivers_name_them(tmp_path: Path, name: str, gpu: str) -> None:
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", {**LATENT, "gpu": name}))
    assert [row.gpu for row in answer.compared] == [gpu]


def test_order_of_files_stays_that_of_the_logs(tmp_path: Path) -> None:
    answer = ask_validate(measurements=write(tmp_path / "rows.csv", LLAMA, LATENT, QWEN))
    assert [row.model.split("/")[1][:5] for row in answer.compared] == ["Llama", "DeepS", "Qwen2"]
