"""``calibrate``: known parameters come back, files read back to the same, and validate finds the same errors."""

from __future__ import annotations

import json
import random
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_runner import asked
from written_tables import BASE, STACK, fit_of, grid, scaled, shapes, timed, write

from costmodel.errors import InputError
from costmodel.inputs.efficiency import OperatorFit, load_efficiency
from costmodel.operators.catalogue import FORMS, KINDS, PARAMETERS
from costmodel.questions.calibrate import CalibrateAnswer, Fitted, ask_calibrate
from costmodel.questions.validate import ask_validate

NOISE = 0.004
GEMM = fit_of("gemm", "tiled_gemm", compute_share=0.7, bandwidth_share=0.8, latency=6e-6, tile_edge=12.0)
PREFILL = {"compute_share": 0.55, "latency": 9e-6, "tile_overhead_tokens": 150.0, "per_token": 2e-9}
DECODE = {"bandwidth_share": 0.8, "latency": 1e-5, "pass_latency": 5e-6, "block_time": 3e-6}
SENDING = {"bandwidth_share": 0.75, "latency": 9e-6, "step_latency": 2e-6, "ramp_bytes": 2e5}
STREAM = {"latency": 4e-6, "bandwidth_share": 0.8, "cached_share": 1.6, "cached_part": 0.6}
#: Shapes and the parameters that their times are made of.
KNOWN: dict[str, tuple[OperatorFit, ...]] = {
    "gemm": (GEMM,),
    "gemm_fp8": (
        fit_of("gemm_fp8", "quantised_gemm", compute_share=0.6, bandwidth_share=0.75, latency=7e-6,
               quantise_share=0.35),
    ),
    "context_attention": (fit_of("attention_prefill", "prefill_fa3", **PREFILL),),
    "chunked_attention": (fit_of("attention_prefill", "prefill_fa2", **PREFILL),),
    "generation_attention": (fit_of("attention_decode", "decode_fa2", **DECODE),),
    "mixed_attention": (
        fit_of("attention_mixed", "mixed", decode_overhead_tokens=180.0, empty_tile_tokens=25.0),
        fit_of("attention_prefill", "prefill_fa2", **PREFILL),
        fit_of("attention_decode", "decode_fa2", **DECODE),
    ),
    "mla": (fit_of("mla_prefill", "prefill_fa2", **PREFILL),),
    "mla_module": (
        fit_of("mla_prefill", "latent_prefill", compute_share=0.5, bandwidth_share=0.6, absorbed_tokens=0.0),
        fit_of("mla_module", "module", latency=60e-6, token_bytes=9e4),
        fit_of("mla_decode", "latent_decode", bandwidth_share=0.6, block_time=5e-6),
        fit_of("mla_module_decode", "module", latency=50e-6, token_bytes=2e5),
    ),
    "mla_module_fp8_cache": (
        fit_of("mla_decode_fp8_cache", "latent_decode", bandwidth_share=0.5, block_time=6e-6),
        fit_of("mla_module_decode_fp8_cache", "module", latency=60e-6, token_bytes=3e5),
    ),
    "moe": (fit_of("moe", "experts", compute_share=0.6, bandwidth_share=0.8, latency=3e-5, tile_rows=64.0),),
    "collective": tuple(
        fit_of(kind, "collective", **SENDING)
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    ),
    "custom_all_reduce": (
        fit_of("custom_all_reduce", "custom_all_reduce", **{**SENDING, "latency": 3e-6}),
    ),
    "layer_ops_wide": (
        GEMM,
        *(fit_of(kind, "streaming", **STREAM) for kind in ("norm", "rope", "activation", "add", "embedding")),
    ),
    "layer_ops_long": (
        GEMM,
        *(fit_of(kind, "streaming", **STREAM) for kind in ("norm", "rope", "activation", "embedding")),
    ),
}  # fmt: skip


def tables(kind: str, folder: Path) -> list[Path]:
    """Tables of a kind with times of the known parameters; mixed attention leans on two other kinds."""
    names = [kind]
    if kind == "mixed_attention":
        names += ["chunked_attention", "generation_attention"]
    return [timed(folder / f"{name}.csv", shapes(name), KNOWN[kind], noise=NOISE) for name in names]


def held_out(rows: Sequence[Any]) -> list[dict[str, object]]:
    """Rows of errors as a user sees them, without the file's part in the fit's name."""
    return [vars(row) for row in rows if row.split == "held_out"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Path], Path, CalibrateAnswer]]:
    """Tables of every kind, the file written from them, and the answer."""
    found = {}
    for kind in KNOWN:
        folder = tmp_path_factory.mktemp(kind)
        measured = tables(kind, folder)
        output = folder / "mine.toml"
        answer = ask_calibrate(measured, output=output, date="2026-01-31", source="a bench")
        found[kind] = measured, output, answer
    return found


# Known parameters come back


@pytest.mark.parametrize("kind", KNOWN)
def test_known_parameters_come_back(fitted: dict[str, Any], kind: str) -> None:
    """Times deviate by up to 0.4 %, evenly spread: by 0.2 % in the mean, which is what a right fit leaves."""
    answer: CalibrateAnswer = fitted[kind][2]
    found = {fit.operator: fit for fit in answer.fits}
    assert set(found) == {known.kind for known in KNOWN[kind]} and not answer.left_out
    for known in KNOWN[kind]:
        fit = found[known.kind]
        assert fit.form == known.form and set(fit.parameters) == set(known.parameters)
        for name, value in known.parameters.items():
            assert fit.parameters[name] == pytest.approx(value, rel=0.05, abs=1e-12), (known.kind, name)
        assert fit.fitted_mape < 0.0026 and fit.held_out_mape < 0.0036
        assert abs(fit.held_out_bias or 0) < 0.003
        assert min(fit.points, fit.held_out_points) > 0 and fit.source == "a bench"


@pytest.mark.parametrize("kind", KNOWN)
def test_parameters_stay_in_their_ranges_and_are_four_at_most(fitted: dict[str, Any], kind: str) -> None:
    for fit in fitted[kind][2].fits:
        assert len([name for name in fit.parameters if name in FORMS[fit.form].fitted]) <= 4
        for name, value in fit.parameters.items():
            assert PARAMETERS[name].low <= value <= PARAMETERS[name].high


# The file


@pytest.mark.parametrize("kind", KNOWN)
def test_a_file_reads_back_to_the_same(fitted: dict[str, Any], kind: str) -> None:
    _, output, answer = fitted[kind]
    read = load_efficiency(output)
    assert (read.gpu, read.stack, read.date) == ("h100-sxm", STACK, "2026-01-31")
    assert answer.files == (str(output),) and set(read.operators) == {fit.operator for fit in answer.fits}
    for fit in answer.fits:
        same = read.operators[fit.operator]
        for name in ("form", "points", "held_out_points", "fitted_mape", "held_out_mape", "held_out_bias",
                     "carried_mape", "carried_to", "split", "source"):  # fmt: skip
            assert getattr(same, name) == getattr(fit, name), name
        assert same.parameters == pytest.approx(fit.parameters, rel=1e-15, abs=0)


@pytest.mark.parametrize("kind", KNOWN)
def test_validate_finds_the_same_errors(fitted: dict[str, Any], kind: str) -> None:
    measured, output, answer = fitted[kind]
    checked = ask_validate(measurements=measured, efficiency=output)
    assert checked.rows == answer.rows
    assert {row.split for row in checked.rows} == {"fitted", "held_out"}
    for row in checked.rows:
        assert row.mape < 0.006 and row.below_bound == 0
    # and figures of the fit are those of the rows, where one operator makes up a kind
    if len(answer.fits) == 1:
        (fit,) = answer.fits
        whole = {row.split: row for row in checked.rows if row.regime == "all"}
        assert (whole["fitted"].n, whole["held_out"].n) == (fit.points, fit.held_out_points)
        assert whole["fitted"].mape == pytest.approx(fit.fitted_mape, abs=1e-6)
        assert whole["held_out"].mape == pytest.approx(fit.held_out_mape, abs=1e-6)
        assert whole["held_out"].bias == pytest.approx(fit.held_out_bias, abs=1e-6)


@pytest.mark.parametrize(
    "kind", ["gemm", "generation_attention", "layer_ops_wide", "collective", "mla_module"]
)
def test_answers_do_not_depend_on_the_order_of_rows(
    fitted: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    measured, _, answer = fitted[kind]
    (path,) = measured
    header, *lines = path.read_text().splitlines()
    random.Random(7).shuffle(lines)
    mixed_up = tmp_path / path.name
    mixed_up.write_text("\n".join([header, *lines]))
    for again in (ask_calibrate([path], source="a bench"), ask_calibrate([mixed_up], source="a bench")):
        assert again.fits == answer.fits and again.rows == answer.rows


def test_units_and_packing_make_no_difference(fitted: dict[str, Any], tmp_path: Path) -> None:
    (path,), _, answer = fitted["generation_attention"]
    microseconds = scaled(path, tmp_path / "us.csv.gz", 1000.0, {"latency_ms": "time_us"})
    again = ask_calibrate([microseconds], source="a bench")
    for one, other in zip(answer.fits, again.fits):
        assert one.parameters == pytest.approx(other.parameters, rel=2e-3)
        assert one.held_out_mape == pytest.approx(other.held_out_mape, abs=1e-5)


def test_a_step_uses_the_file(tmp_path: Path) -> None:
    """A GPU of half the bandwidth in every product: a decode step of little else takes longer, and says why."""
    slow = fit_of("gemm", "tiled_gemm", compute_share=0.3, bandwidth_share=0.3, latency=6e-6, tile_edge=12.0)
    output = tmp_path / "slow.toml"
    ask_calibrate([timed(tmp_path / "slow.csv", shapes("gemm"), [slow])], output=output)
    question = (
        "step",
        "Qwen3-8B",
        "--hardware",
        "h100-sxm",
        "--phase",
        "decode",
        "--batch",
        "1",
        "--context",
        "1000",
    )
    own, other = asked(*question), asked(*question, "--efficiency", str(output))
    # 8.19e9 parameters less the input embedding of 0.62e9, 2 bytes, at 0.3 of 3.35 TB/s
    assert other["time_s"] == pytest.approx(15.1e9 / (0.3 * 3.35e12), rel=0.25)
    assert other["time_s"] > 2 * own["time_s"] and other["bound_s"] == own["bound_s"]
    assert STACK in json.dumps(other)


# What a fit may see


def test_every_second_shape_is_held_out(fitted: dict[str, Any]) -> None:
    """12 shapes (n, k) sorted by number: 1024/1536, 1024/4096, 1024/12288, 2560/1536 ... are fitted in turn."""
    _, output, answer = fitted["gemm"]
    fit = load_efficiency(output).operators["gemm"]
    shapes_in_order = [f"{n}/{k}" for n in (1024, 2560, 6144, 14336) for k in (1536, 4096, 12288)]
    assert fit.fitted_on == tuple(shapes_in_order[::2])
    assert answer.fits[0].points == answer.fits[0].held_out_points == 6 * 15


def test_one_shape_alone_is_split_by_rows_and_read_back_so(tmp_path: Path) -> None:
    rows = [{**BASE, "n": 4096, "k": 4096, "m": m} for m in range(1, 400, 9)]
    path = timed(tmp_path / "one.csv", rows, [GEMM], noise=NOISE)
    output = tmp_path / "one.toml"
    answer = ask_calibrate([path], output=output)
    (fit,) = answer.fits
    assert (fit.points, fit.held_out_points) == (23, 22) and "every second row" in fit.split
    checked = ask_validate(measurements=path, efficiency=output)
    assert checked.rows == answer.rows
    assert {(row.split, row.n) for row in checked.rows if row.regime == "all"} == {
        ("fitted", 23),
        ("held_out", 22),
    }
    # of another table, nobody can say which rows of that shape were seen: all count as fitted
    fewer = timed(tmp_path / "fewer.csv", rows[:20], [GEMM], noise=NOISE)
    other = ask_validate(measurements=fewer, efficiency=output)
    assert {(row.split, row.n) for row in other.rows if row.regime == "all"} == {("fitted", 20)}


def test_rows_of_another_stack_gpu_or_shape_are_held_out(fitted: dict[str, Any], tmp_path: Path) -> None:
    _, output, _ = fitted["gemm"]
    seen = {**BASE, "n": 1024, "k": 1536}
    rows = [{**row, "m": m} for m in (1, 100, 1000) for row in (
        seen, {**seen, "n": 1025}, {**seen, "stack": "mine-2.0"}, {**seen, "gpu": "h200-sxm"},
    )]  # fmt: skip
    checked = ask_validate(measurements=timed(tmp_path / "more.csv", rows, [GEMM]), efficiency=output)
    found = {(row.gpu, row.stack, row.split): row.n for row in checked.rows if row.regime == "all"}
    assert found == {
        ("h100-sxm", STACK, "fitted"): 3,
        ("h100-sxm", STACK, "held_out"): 3,
        ("h100-sxm", "mine-2.0", "held_out"): 3,
        ("h200-sxm", STACK, "held_out"): 3,
    }
    # the file given comes first, also for other stacks of its GPU, and is lent to another GPU
    used = {(fit.gpu, fit.stack): (fit.fitted_on_stack, fit.borrowed) for fit in checked.fits}
    assert used["h100-sxm", "mine-2.0"] == (STACK, None)
    assert used["h200-sxm", STACK] == (STACK, "h100-sxm")


def test_models_with_commas_stay_what_they_are(tmp_path: Path) -> None:
    dims = {"n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_expanded_embd": 14336, "vocab_size": 32000,
            "use_gated_mlp": "True"}  # fmt: skip
    names = ("one, large", "two, small", "three")
    write(tmp_path / "model_dims.csv", [{"model": name, **dims} for name in names])
    rows = [{**BASE, **row} for row in grid(
        model=names, tp=(1, 2), tokens=(1, 8, 64, 256, 1024), layer=("qkv_proj", "down_proj"))]  # fmt: skip
    path, output = timed(tmp_path / "ops.csv", rows, [GEMM], noise=NOISE), tmp_path / "ops.toml"
    answer = ask_calibrate([path], output=output)
    assert (answer.fits[0].points, answer.fits[0].held_out_points) == (40, 20)
    assert ask_validate(measurements=path, efficiency=output).rows == answer.rows


# Several GPUs and stacks


def two_gpus(folder: Path) -> Path:
    rows = [{**row, "gpu": gpu} for gpu in ("H100", "a100_sxm") for row in shapes("gemm")]
    return timed(folder / "two.csv", rows, [GEMM], noise=NOISE)


def test_a_folder_takes_a_file_for_each_gpu_and_stack(tmp_path: Path) -> None:
    answer = ask_calibrate([two_gpus(tmp_path)], output=tmp_path / "out" / "new")
    names = ["a100-sxm-80gb--mine-1.0.toml", "h100-sxm--mine-1.0.toml"]
    assert sorted(path.name for path in (tmp_path / "out" / "new").iterdir()) == names
    assert [Path(path).name for path in answer.files] == names
    # the times are those of the same parameters on both, so carrying them over costs nothing but noise
    for fit in answer.fits:
        assert fit.carried_mape is not None and fit.carried_mape < 0.004
    assert {(fit.gpu, fit.carried_to) for fit in answer.fits} == {
        ("h100-sxm", "a100-sxm-80gb"), ("a100-sxm-80gb", "h100-sxm"),
    }  # fmt: skip


def test_one_file_cannot_hold_two_stacks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a100-sxm-80gb, mine-1.0; h100-sxm, mine-1.0.*pass a folder"):
        ask_calibrate([two_gpus(tmp_path)], output=tmp_path / "both.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["two.csv"]


def test_stacks_whose_files_would_be_called_the_same(tmp_path: Path) -> None:
    rows = [{**row, "stack": stack} for stack in ("mine 1", "mine/1") for row in shapes("gemm")]
    with pytest.raises(InputError, match="called the same: h100-sxm, mine 1; h100-sxm, mine/1"):
        ask_calibrate([timed(tmp_path / "two.csv", rows, [GEMM])], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stack", ["новый-1", 'say "x" \\ 2', "😀-3", "tab\u007f4"])
def test_any_name_of_a_stack_reads_back(tmp_path: Path, stack: str) -> None:
    path = timed(tmp_path / "t.csv", [{**row, "stack": stack} for row in shapes("gemm")], [GEMM])
    output = tmp_path / "out"
    (name,) = ask_calibrate([path], output=output, source=f"by {stack}\n\tme").files
    assert Path(name).parent == output
    assert load_efficiency(name).stack == stack == tomllib.loads(Path(name).read_text())["stack"]
    assert {row.split for row in ask_validate(measurements=path, efficiency=name).rows} == {
        "fitted",
        "held_out",
    }


# Too little, or nothing to write to


def test_too_few_rows_are_left_out_with_the_reason(tmp_path: Path) -> None:
    few = timed(tmp_path / "few.csv", shapes("generation_attention")[:7], KNOWN["generation_attention"])
    with pytest.raises(
        InputError,
        match=r"7 rows of 7 different runs, . of them not held out; a fit needs at least 8 different ones and 4",
    ):
        ask_calibrate([few])
    many = timed(tmp_path / "many.csv", shapes("gemm"), [GEMM])
    answer = ask_calibrate([few, many])
    assert [fit.operator for fit in answer.fits] == ["gemm"]
    (left,) = answer.left_out
    assert left.rows == 7 and left.where == str(few) and "attention_decode of h100-sxm" in left.why


def test_a_fit_sees_as_many_rows_as_it_has_parameters(tmp_path: Path) -> None:
    """Of 1 row of 64/64 and 20 of 128/64 the fit would see the one."""
    rows = [{**BASE, "n": n, "k": 64, "m": m} for n, m in [(64, 1), *((128, m) for m in range(1, 21))]]
    with pytest.raises(InputError, match="21 rows of 21 different runs, 1 of them not held out"):
        ask_calibrate([timed(tmp_path / "t.csv", rows, [GEMM])])


def test_attention_alone_beside_whole_modules(tmp_path: Path) -> None:
    alone = timed(tmp_path / "alone.csv", shapes("mla"), KNOWN["mla"])
    module = timed(tmp_path / "module.csv", shapes("mla_module"), KNOWN["mla_module"])
    answer = ask_calibrate([alone, module])
    assert {fit.operator: fit.form for fit in answer.fits}["mla_prefill"] == "latent_prefill"
    assert [left.where for left in answer.left_out] == [str(alone)]
    assert "attention alone beside whole modules" in answer.left_out[0].why


def test_scipy_is_asked_for_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, output = timed(tmp_path / "t.csv", shapes("gemm"), [GEMM]), tmp_path / "out"
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r"fitting needs scipy: pip install 'llm-costmodel\[calibrate\]'"):
        ask_calibrate([path], output=output)
    assert not output.exists()
    # a file is used without it
    assert ask_validate(measurements=path).rows


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    path = timed(tmp_path / "t.csv", shapes("gemm"), [GEMM])
    (tmp_path / "is_a_folder.toml").mkdir()
    (tmp_path / "a_file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for output, said in (
        (tmp_path / "absent" / "mine.toml", "mine.toml: cannot be written: No such file or directory"),
        (tmp_path / "is_a_folder.toml", "is_a_folder.toml: cannot be written: Is a directory"),
        (tmp_path / "a_file", "a_file: cannot be made: File exists"),
        (tmp_path / "a_file" / "deeper", "cannot be made: Not a directory"),
        (tmp_path / f"{'x' * 300}.toml", "cannot be written: File name too long"),
    ):
        with pytest.raises(InputError, match=said):
            ask_calibrate([path], output=output)
        assert sorted(tmp_path.rglob("*")) == before


def test_all_files_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, output = two_gpus(tmp_path), tmp_path / "out"
    (output / "h100-sxm--mine-1.0.toml").mkdir(parents=True)  # the second one cannot be put there
    with pytest.raises(InputError, match=r"h100-sxm--mine-1.0.toml: cannot be written: Is a directory"):
        ask_calibrate([path], output=output)
    assert [entry.name for entry in output.iterdir()] == ["h100-sxm--mine-1.0.toml"]

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    target = tmp_path / "mine.toml"
    target.write_text("what was there")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match=r"mine.toml: cannot be written: No space left on device"):
        ask_calibrate([timed_without_writing(tmp_path)], output=target)
    assert target.read_text() == "what was there"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine.toml", "one.csv", "out", "two.csv"]


def timed_without_writing(folder: Path) -> Path:
    """A table that a shell wrote."""
    lines = [f"h100-sxm,{n},1024,{m},{m * n * 1e-9 + 0.01}" for n in (64, 128, 256) for m in range(1, 9)]
    path = folder / "one.csv"
    path.write_text("\n".join(["gpu,n,k,m,time_ms", *lines]))
    return path


def test_an_existing_file_is_replaced_whole(tmp_path: Path) -> None:
    path, target = timed(tmp_path / "t.csv", shapes("gemm"), [GEMM]), tmp_path / "mine.toml"
    target.write_text("x" * 100_000)
    ask_calibrate([path], output=target)
    assert load_efficiency(target).stack == STACK
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine.toml", "t.csv"]


def test_kinds_that_no_table_measures_are_not_in_the_file(fitted: dict[str, Any]) -> None:
    found = {fit.operator for _, _, answer in fitted.values() for fit in answer.fits}
    assert found == set(KINDS) - {"moe_fp8", "point_to_point"}


def test_a_board_of_ones_own(tmp_path: Path) -> None:
    """A GPU of a generation of which nothing was measured: its own fits are all there is."""
    board = tmp_path / "acme.toml"
    board.write_text(
        'name = "acme-1"\ntitle = "Acme 1"\ngeneration = "acme"\n[values]\n'
        'peak_bf16 = { value = "500 TFLOP/s", source = "us" }\nsm_count = { value = "100", source = "us" }\n'
        'memory_bandwidth = { value = "2000 GB/s", source = "us" }\nmemory = { value = "64 GiB", source = "us" }\n'
        '[sources]\nus = "our own board"\n'
    )
    rows = [{**row, "gpu": "h100-sxm"} for row in shapes("gemm")]
    path = timed(tmp_path / "t.csv", rows, [GEMM], noise=NOISE)
    path.write_text(path.read_text().replace("h100-sxm", "Acme 1"))  # times of an H100, under another name
    output = tmp_path / "mine.toml"
    answer = ask_calibrate([path], hardware=board, output=output)
    (fit,) = answer.fits
    assert (fit.gpu, fit.carried_mape) == ("acme-1", None)
    # 3,350 GB/s at 0.8 are beyond this board's 2,000: the share stops at 1, and errors show it
    assert fit.parameters["bandwidth_share"] == 1.0 and fit.held_out_mape > 0.05
    checked = ask_validate(measurements=path, hardware=board, efficiency=output)
    assert checked.rows == answer.rows and {row.below_bound for row in checked.rows} == {0}


def test_the_fields_of_a_fit() -> None:
    """Names that a script may rely on."""
    assert set(Fitted.__dataclass_fields__) >= {
        "gpu", "stack", "operator", "form", "parameters", "points", "held_out_points", "fitted_mape",
        "held_out_mape", "held_out_bias", "split", "source",
    }  # fmt: skip
