"""Tables of whole steps and closed loops: columns, units, wrong cells, what is left out, and figures that follow."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.inputs.hardware import load_gpu
from costmodel.measured.points import Given, Read
from costmodel.measured.table import read_table
from costmodel.questions.validate import ValidateAnswer, ask_validate
from costmodel.serving.closed_loop import Loop
from costmodel.serving.work import Chunk
from costmodel.whole.read import read_whole
from costmodel.whole.runs import Shape, Whole

Row = Mapping[str, Any]
PROMPT: Row = {
    "model": "Llama-2-70b-hf", "hardware": "a100-80gb", "tensor_parallel": 4, "prompt_size": 512, "batch_size": 2,
    "prompt_ms": 200.0,
}  # fmt: skip
DECODE: Row = {
    "model": "Llama-2-70b-hf", "hardware": "a100-80gb", "tensor_parallel": 4, "prompt_size": 512, "batch_size": 2,
    "token_size": 100, "token_ms": 40.0,
}  # fmt: skip
LOOP: Row = {
    "backend": "vllm", "backend_version": "", "model_path": "meta-llama/Llama-3.1-70B", "system": "h200_sxm",
    "precision": "fp8", "mode": "agg", "isl": 1024, "osl": 256, "tp_size": 2, "concurrency": 4,
    "silicon_ttft_ms": 160.0, "silicon_tpot_ms": 15.0,
}  # fmt: skip
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"


def written(path: Path, *rows: Row) -> Path:
    names = list(rows[0])
    text = "\n".join([",".join(names), *(",".join(str(row[name]) for name in names) for row in rows)])
    path.write_bytes(gzip.compress(text.encode()) if path.name.endswith(".gz") else text.encode())
    return path


def read(path: Path, *rows: Row, given: Given | None = None) -> tuple[list[Whole], Read]:
    return read_whole(read_table(written(path, *rows)), given or Given())


def without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def reasons(answer: ValidateAnswer) -> dict[str, int]:
    return {left.why: left.rows for left in answer.left_out}


def biases(answer: ValidateAnswer) -> dict[tuple[str, ...], tuple[int, float]]:
    return {(row.gpu, row.stack, row.split, row.regime): (row.n, row.bias) for row in answer.rows}


# --- columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_steps_are_read(tmp_path: Path, name: str) -> None:
    (prompt,), left = read(tmp_path / name, PROMPT)
    assert (prompt.kind, prompt.stack, prompt.software, prompt.line) == ("step", "not stated", None, 2)
    assert prompt.what == Shape(chunks=(Chunk(512), Chunk(512)))
    assert prompt.seconds == {"prefill": pytest.approx(0.2)}
    assert (prompt.setting.model.name, prompt.setting.gpu.name, prompt.setting.tp) == (
        "meta-llama/Llama-2-70b-hf", "a100-sxm-80gb", 4,
    )  # fmt: skip
    assert prompt.setting.key == "Llama-2-70b-hf fp16 TP4" and not left.skipped
    (decode,), _ = read(tmp_path / name, DECODE)
    # 512 tokens, and half of 100 on average
    assert decode.what == Shape(batch=2, context=2 * 562.0)
    assert decode.seconds == {"decode": pytest.approx(0.04)}


def test_loops_are_read(tmp_path: Path) -> None:
    (run,), _ = read(tmp_path / "a.csv", LOOP)
    assert (run.kind, run.stack, run.what) == ("end_to_end", "vllm", Loop(1024, 256, 4))
    assert run.seconds == {"ttft": pytest.approx(0.16), "tpot": pytest.approx(0.015)}
    assert (run.setting.dtype, run.setting.kv_dtype, run.setting.ep) == ("fp8", None, 1)
    assert run.setting.key == "Llama-3.1-70B fp8 TP2"
    (run,), _ = read(tmp_path / "a.csv", {**LOOP, "backend_version": "0.12.0", "kv_cache_dtype": "fp8"})
    assert (run.stack, run.setting.kv_dtype) == ("vllm-0.12.0", "fp8")
    (run,), _ = read(tmp_path / "a.csv", LOOP, given=Given(stack="sglang-1"))
    assert run.stack == "sglang-1"


@pytest.mark.parametrize(
    ("base", "old", "new", "factor"),
    [
        (PROMPT, "prompt_ms", "prompt_s", 1e-3),
        (PROMPT, "prompt_ms", "prefill_ms", 1),
        (PROMPT, "prompt_ms", "prefill_s", 1e-3),
        (DECODE, "token_ms", "token_s", 1e-3),
        (DECODE, "token_ms", "decode_ms", 1),
        (DECODE, "token_size", "output_size", 1),
        (DECODE, "tensor_parallel", "tp", 1),
        (DECODE, "hardware", "gpu", None),
        (LOOP, "silicon_ttft_ms", "ttft_s", 1e-3),
        (LOOP, "silicon_tpot_ms", "tpot_ms", 1),
        (LOOP, "tp_size", "tp", 1),
        (LOOP, "precision", "dtype", None),
        (LOOP, "model_path", "model", None),
    ],
)
def test_columns_have_other_names_and_units(
    tmp_path: Path, base: Row, old: str, new: str, factor: float | None
) -> None:
    value = base[old] if factor is None else base[old] * factor
    other = {**without(base, old), new: value}
    (one,), (again,) = (read(tmp_path / "a.csv", row)[0] for row in (base, other))
    assert again.what == one.what and again.setting == one.setting
    assert dict(again.seconds) == pytest.approx(dict(one.seconds), rel=1e-12)


def test_what_is_absent_has_a_default_or_is_asked_for(tmp_path: Path) -> None:
    (run,), _ = read(tmp_path / "a.csv", without(LOOP, "tp_size", "precision", "mode", "silicon_ttft_ms"))
    assert run.setting.tp == 1 and run.setting.dtype is None and set(run.seconds) == {"tpot"}
    with pytest.raises(InputError, match="no column says the GPU"):
        read(tmp_path / "a.csv", without(LOOP, "system"))
    given = Given(gpu=load_gpu("h100-sxm"))
    (run,), _ = read(tmp_path / "a.csv", without(LOOP, "system"), given=given)
    assert run.setting.gpu.name == "h100-sxm"
    with pytest.raises(InputError, match="column 'model' is missing"):
        read(tmp_path / "a.csv", without(LOOP, "model_path"))


@pytest.mark.parametrize("name", ["isl", "osl", "concurrency"])
def test_a_table_without_a_length_is_no_table_of_loops(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "a.csv", without(LOOP, name))
    with pytest.raises(InputError) as caught:
        ask_validate("end_to_end", measurements=path)
    assert caught.value.where == str(path)


# --- wrong cells ------------------------------------------------------------------------------------------


WRONG_TIMES: tuple[tuple[Row, str, str], ...] = (
    (PROMPT, "prompt_ms", "fast"),
    (PROMPT, "prompt_ms", "-4"),
    (DECODE, "token_ms", ""),
    (LOOP, "silicon_tpot_ms", "0"),
    (LOOP, "silicon_ttft_ms", "inf"),
)
WRONG_COUNTS: tuple[tuple[Row, str, str], ...] = (
    (PROMPT, "batch_size", "two"),
    (PROMPT, "prompt_size", "0"),
    (PROMPT, "tensor_parallel", "1.5"),
    (DECODE, "token_size", "x"),
    (LOOP, "isl", "nan"),
    (LOOP, "osl", "inf"),
    (LOOP, "concurrency", "1e12"),
)


def assert_refused(path: Path, base: Row, name: str, cell: str, expected: str) -> None:
    """The third line of a table is refused by line, column and cell."""
    with pytest.raises(InputError) as caught:
        read(path, base, {**base, name: cell})
    assert caught.value.where == str(path)
    said = f"line 3, column {name!r}: {cell!r} is not {expected}"
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(("base", "name", "cell"), WRONG_TIMES)
def test_a_wrong_time_is_named_by_line_and_column(tmp_path: Path, base: Row, name: str, cell: str) -> None:
    assert_refused(tmp_path / "a.csv", base, name, cell, "a time above 0")


@pytest.mark.parametrize(("base", "name", "cell"), WRONG_COUNTS)
def test_a_wrong_count_is_named_by_line_and_column(tmp_path: Path, base: Row, name: str, cell: str) -> None:
    assert_refused(tmp_path / "a.csv", base, name, cell, "a whole number of at least 1")


# --- left out ---------------------------------------------------------------------------------------------

LEFT: tuple[tuple[Row, str], ...] = (
    ({"model_path": "nobody/Nothing-7B"}, "unknown model 'nobody/Nothing-7B'"),
    ({"system": "h900_sxm"}, "unknown GPU 'h900_sxm'"),
    ({"mode": "disagg"}, "prefill and decode run apart"),
    ({"attention_dp_size": 4}, "attention is data-parallel"),
    ({"pp_size": 2}, "layers are spread over pipeline stages"),
    ({"tp_size": 16}, "16 GPUs: collectives were measured over up to 8"),
    ({"precision": "fp3"}, "weights in fp3: meta-llama/Llama-3.1-70B is not packaged so"),
    ({"concurrency": ""}, "no concurrency is stated"),
    (
        {"model_path": MIXTRAL, "precision": "bf16", "tp_size": 4, "moe_tp_size": 2, "moe_ep_size": 1},
        "experts over 2 x 1 GPUs and attention over 4",
    ),
)


@pytest.mark.parametrize(("change", "said"), LEFT)
def test_rows_that_cannot_be_priced_are_left_out_with_the_reason(
    tmp_path: Path, change: Row, said: str
) -> None:
    columns = {"attention_dp_size": 1, "pp_size": 1, "moe_tp_size": "", "moe_ep_size": ""}
    good, bad = {**LOOP, **columns}, {**LOOP, **columns, **change}
    runs, left = read(tmp_path / "a.csv", good, bad, bad)
    assert len(runs) == 1
    (skipped,) = left.skipped
    assert skipped.rows == 2 and said in skipped.why and skipped.where == str(tmp_path / "a.csv")
    answer = ask_validate("end_to_end", measurements=tmp_path / "a.csv")
    assert {row.n for row in answer.rows if row.regime == "tpot"} == {1}
    assert sum(rows for why, rows in reasons(answer).items() if said in why) == 2


def test_layouts_of_experts(tmp_path: Path) -> None:
    """Experts over as many GPUs as attention: EP 2 x TP 2 over 4; a dense model's columns say nothing."""
    moe = {
        **LOOP,
        "model_path": MIXTRAL,
        "precision": "bf16",
        "tp_size": 4,
        "moe_tp_size": 2,
        "moe_ep_size": 2,
    }
    (run,), _ = read(tmp_path / "a.csv", moe)
    assert (run.setting.tp, run.setting.ep) == (4, 2) and run.setting.key.endswith("TP4 EP2")
    (run,), _ = read(tmp_path / "a.csv", {**LOOP, "moe_tp_size": 8, "moe_ep_size": 4})
    assert (run.setting.tp, run.setting.ep) == (2, 1)


def test_the_same_measurement_counts_once(tmp_path: Path) -> None:
    same = {
        **LOOP,
        "model_path": "meta-llama/Llama-3.1-70B-Instruct",
    }  # the same under another name of the model
    other = {**LOOP, "silicon_tpot_ms": 15.1}
    answer = ask_validate("end_to_end", measurements=written(tmp_path / "a.csv", LOOP, LOOP, same, other))
    assert {row.n for row in answer.rows if row.regime == "tpot"} == {2}
    assert reasons(answer) == {"the same measurement again, under this or another name of the model": 2}


def test_rows_faster_than_physics_are_left_out(tmp_path: Path) -> None:
    # 70 GB of weights over two GPUs of 4.8 TB/s take 7.3 ms
    for tpot, kept in ((7.0, 1), (7.6, 2)):
        rows = [LOOP, {**LOOP, "silicon_tpot_ms": tpot}]
        answer = ask_validate("end_to_end", measurements=written(tmp_path / "a.csv", *rows))
        assert {row.n for row in answer.rows if row.regime == "tpot"} == {kept}
        said = reasons(answer)
        assert said == ({"tpot is faster than physics allows of what the row states": 1} if kept == 1 else {})


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", {**LOOP, "mode": "disagg"})
    with pytest.raises(InputError, match="nothing of end_to_end could be compared") as caught:
        ask_validate("end_to_end", measurements=path)
    assert any("prefill and decode run apart" in problem for problem in caught.value.problems)


# --- figures follow the file ------------------------------------------------------------------------------


def table(base: Row, name: str, sizes: Sequence[int], times: Sequence[str], factor: float) -> list[Row]:
    """Rows of several sizes, slower with each: ``times`` are the columns of times."""
    return [
        {**base, name: size, **{t: base[t] * factor * (2 + place) for t in times}}
        for place, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("base", "name", "times"),
    [
        (PROMPT, "prompt_size", ("prompt_ms",)),
        (DECODE, "batch_size", ("token_ms",)),
        (LOOP, "isl", ("silicon_ttft_ms", "silicon_tpot_ms")),
    ],
)
def test_doubled_times_halve_what_is_predicted_of_them(
    tmp_path: Path, base: Row, name: str, times: Sequence[str]
) -> None:
    """p / (2 t) = (p / t) / 2: 1 + bias halves in every row."""
    found = []
    for factor in (1.0, 2.0):
        rows = table(base, name, (256, 300, 511), times, factor)
        found.append(biases(ask_validate(measurements=written(tmp_path / "a.csv.gz", *rows))))
    once, twice = found
    assert once.keys() == twice.keys() and len(once) >= 4
    for key, (count, bias) in twice.items():
        assert count == once[key][0] == 3 * (2 if len(times) == 2 and key[-1] == "all" else 1)
        assert 1 + bias == pytest.approx((1 + once[key][1]) / 2, rel=1e-12), key


def test_a_table_of_prompts_and_tokens_has_both_steps(tmp_path: Path) -> None:
    """A row with both times is a prompt step and a decode step."""
    both = {**DECODE, "prompt_ms": PROMPT["prompt_ms"]}
    answers = [
        biases(ask_validate("step", measurements=written(tmp_path / "a.csv", row)))
        for row in (PROMPT, DECODE, both)
    ]
    for name, answer in zip(("prefill", "decode"), answers):
        key = next(key for key in answer if key[-1] == name and key[0] == "all")
        assert answers[2][key] == answer[key], name
