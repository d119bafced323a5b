"""``calibrate`` and ``validate`` as a user calls them: pages, formats, and one message for whatever is wrong."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runner import asked, run
from written_tables import BASE, Row, fit_of, scaled, shapes, timed, write

GEMM = fit_of("gemm", "tiled_gemm", compute_share=0.7, bandwidth_share=0.8, latency=6e-6, tile_edge=12.0)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return timed(tmp_path_factory.mktemp("tables") / "gemm.csv", shapes("gemm"), [GEMM], noise=0.004)


# Pages


def test_calibrate_writes_a_file_that_validate_and_step_take(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.toml"
    answer = asked("calibrate", str(table), "-o", str(output), "--source", "our bench")
    assert answer["schema"] == "costmodel.calibrate/1" and answer["files"] == [str(output)]
    (fit,) = answer["fits"]
    assert (fit["gpu"], fit["stack"], fit["operator"], fit["form"]) == (
        "h100-sxm",
        "mine-1.0",
        "gemm",
        "tiled_gemm",
    )
    assert fit["parameters"]["compute_share"] == pytest.approx(0.7, rel=0.02)
    assert fit["parameters"]["latency"] == pytest.approx(6e-6, rel=0.02)
    assert fit["source"] == "our bench" and answer["sources"] == ["our bench"]
    checked = asked("validate", "gemm", "--efficiency", str(output), "--measurements", str(table))
    assert checked["rows"] == answer["rows"]
    held_out = [row for row in answer["rows"] if (row["split"], row["regime"]) == ("held_out", "all")]
    assert [row["mape"] for row in held_out] == [pytest.approx(fit["held_out_mape"], abs=1e-6)]
    for row in answer["rows"]:
        assert set(row) >= {"kind", "gpu", "stack", "split", "regime", "n", "mape", "median", "p90", "bias"}
    step = ("step", "Qwen3-8B", "--hardware", "h100-sxm", "--phase", "prefill", "--isl", "1024")
    assert asked(*step, "--efficiency", str(output))["time_s"] != asked(*step)["time_s"]


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_the_page_says_parameters_and_both_errors(table: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / "mine.toml"
    plain = run("calibrate", str(table), "-f", form)
    assert plain.exit_code == 0 and "nothing written: pass -o FILE.toml" in plain.output
    assert "held-out error" in plain.output and "compute_share 0.7" in plain.output
    assert "regime" not in plain.output
    written = run("calibrate", str(table), "-f", form, "-o", str(output), "--detail")
    assert (
        f"written: {output}" in written.output and "regime" in written.output and "m <= 16" in written.output
    )


def test_the_page_of_validate(table: Path) -> None:
    plain = run("validate", "--measurements", str(table))
    assert (
        plain.exit_code == 0
        and "Below their physical bound: 0 predictions, 0 measured times." in plain.output
    )
    assert "m <= 16" not in plain.output
    detailed = run("validate", "--measurements", str(table), "--detail")
    assert "m <= 16" in detailed.output and "tiled_gemm" in detailed.output
    assert "h100-sxm, vllm-0.24.0" in detailed.output  # whose fit predicts it


def test_a_table_that_names_neither_gpu_nor_stack(table: Path, tmp_path: Path) -> None:
    rows = [dict(zip(("m", "n", "k", "latency_us"), row)) for row in (
        (1, 64, 64, 5), (2, 64, 128, 5), (4, 128, 64, 5), (8, 128, 128, 5),
    )]  # fmt: skip
    bare = write(tmp_path / "bare.csv", rows)
    result = run("validate", "--measurements", str(bare))
    assert result.exit_code == 2
    assert f"{bare}: no column says the GPU (gpu or system); name it with --hardware" in result.output
    answer = asked("validate", "--measurements", str(bare), "--hardware", "h200-sxm")
    assert {(row["gpu"], row["stack"], row["split"]) for row in answer["rows"]} == {
        ("h200-sxm", "not stated", "held_out")
    }
    answer = asked("validate", "--measurements", str(bare), "--hardware", "h200-sxm", "--stack", "own-2")
    assert {row["stack"] for row in answer["rows"]} == {"own-2"}


def test_several_tables(table: Path, tmp_path: Path) -> None:
    moe = timed(tmp_path / "moe.csv.gz", shapes("moe"), [])
    answer = asked("validate", "--measurements", str(table), "--measurements", str(moe))
    assert {row["kind"] for row in answer["rows"]} == {"gemm", "moe"}
    answer = asked("calibrate", str(table), str(moe))
    assert [fit["operator"] for fit in answer["fits"]] == ["gemm", "moe"]


def test_rows_left_out_are_said(table: Path, tmp_path: Path) -> None:
    few = write(tmp_path / "few.csv", [{**row, "latency_ms": 1} for row in shapes("moe")[:5]])
    result = run("calibrate", str(table), str(few))
    assert (
        result.exit_code == 0
        and f"{few}: 5 rows left out: moe of h100-sxm, mine-1.0: 5 rows" in result.output
    )
    strange = write(tmp_path / "strange.csv", [{**BASE, "m": 1, "n": 64, "k": 64, "gpu": gpu, "time_us": 5}
                                              for gpu in ("H100", "Z9")])  # fmt: skip
    result = run("validate", "--measurements", str(strange))
    assert result.exit_code == 0 and "unknown GPU 'Z9'" in result.output


def test_help_needs_no_numpy() -> None:
    code = (
        "import sys; from costmodel.cli import main\n"
        "for name in ('calibrate', 'validate'):\n"
        "    main([name, '--help'], standalone_mode=False)\n"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy', 'sympy', 'matplotlib')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "FILE..." in result.stdout and "--plot" in result.stdout and "needs scipy" in result.stdout


# Whatever is wrong: one message, exit code 2


def complaint(*arguments: str) -> str:
    """What a command that is refused prints: one message, and no traceback."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output and not result.stdout
    return result.stderr


@pytest.mark.parametrize("command", ["validate", "calibrate"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows"),
        ("gpu,m,n,k,time_us\n", "holds no rows"),
        ("gpu,m,n,k,time_us\nh100,1,2\n", "line 2: 3 cells; expected 5"),
        ("gpu,m,n,k,m,time_us\nh100,1,2,3,4,5\n", "column 'm' stands in the header twice"),
        ("gpu,m,n,time_us\nh100,1,2,5\n", "column 'k' is missing"),
        ("gpu,m,n,k\nh100,1,2,5\n", "no column of times; expected latency_ms, time_us"),
        ("gpu,m,n,k,time\nh100,1,2,5,7\n", "column 'time' names no unit of its times"),
        ("gpu,m,n,k,time_us\nh100,1,2,3,fast\n", "line 2, column 'time_us': 'fast' is not a time above 0"),
        ("gpu,m,n,k,time_us\nh100,1,2,3,0\n", "line 2, column 'time_us': '0' is not a time above 0"),
        ("gpu,m,n,k,time_us\nh100,1,2,3,-1\n", "line 2, column 'time_us': '-1' is not a time above 0"),
        ("gpu,m,n,k,time_us\nh100,1,2,3,nan\n", "line 2, column 'time_us': 'nan' is not a time above 0"),
        ("gpu,m,n,k,time_us\nh100,1,2,3,inf\n", "line 2, column 'time_us': 'inf' is not a time above 0"),
        ("gpu,m,n,k,time_us\nh100,x,2,3,5\n", "line 2, column 'm': 'x' is not a whole number of at least 1"),
        ("gpu,m,n,k,time_us\nh100,1.5,2,3,5\n", "line 2, column 'm': '1.5' is not a whole number of at least 1"),
        ("gpu,m,n,k,time_us\nh100,1,0,3,5\n", "line 2, column 'n': '0' is not a whole number of at least 1"),
        ("gpu,m,n,k,time_us\nz9,1,2,3,5\n", "1 rows: unknown GPU 'z9'"),
        ("colour,size\nred,5\n", "its columns are those of no kind of measurements"),
        (b"\x89PNG\r\n\x1a\n\xff", "is not UTF-8 text"),
        (f"gpu,m,n,k,time_us\nh100,{'9' * 200_000},2,3,5\n", "field larger than field limit"),
        (f"gpu,m,n,k,time_us\nh100,{'9' * 20_000},2,3,5\n", "line 2, column 'm': '99999"),
    ],
)  # fmt: skip
def test_tables_that_say_nothing(tmp_path: Path, command: str, text: str | bytes, said: str) -> None:
    data = text.encode() if isinstance(text, str) else text
    for name, content in (("t.csv", data), ("t.csv.gz", gzip.compress(data))):
        path, output = tmp_path / name, tmp_path / "out.toml"
        path.write_bytes(content)
        where = ["validate", "--measurements", str(path)] if command == "validate" else [
            "calibrate", str(path), "-o", str(output)]  # fmt: skip
        message = complaint(*where)
        assert str(path) in message and said in message and len(message) < 1500
        assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted({name, "t.csv"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate", "gem"), "unknown kind of validation 'gem'; did you mean 'gemm'? (one of mixed_attention"),
        (("validate", "attention"), "unknown kind of validation 'attention'"),
        (("validate", "moe", "--measurements", "TABLE"), "TABLE: holds gemm, not moe"),
        (("validate", "--measurements", "absent.csv"), "absent.csv: cannot be read: No such file or directory"),
        (("validate", "--measurements", ""), "--measurements: empty"),
        (("validate", "--measurements", "EMPTY"), "EMPTY: holds no .csv or .csv.gz file"),
        (("validate", "--hardware", "h1000"), "unknown GPU 'h1000'; did you mean"),
        (("validate", "--efficiency", "h100"), "unknown efficiency 'h100'"),
        (("validate", "--efficiency", "absent.toml"), "absent.toml: no such file"),
        (("validate", "--efficiency", "TABLE.toml"), "is not TOML"),
        (("validate", "--plot", "t.jpg", "--measurements", "TABLE"), "--plot t.jpg: expected a name that ends in"),
        (("calibrate",), "Missing argument 'FILE...'"),
        (("calibrate", "absent.csv"), "absent.csv: cannot be read: No such file or directory"),
        (("calibrate", ""), "FILE"),
        (("calibrate", "EMPTY"), "EMPTY: holds no .csv or .csv.gz file"),
        (("calibrate", "TABLE", "-o", "absent/mine.toml"), "absent/mine.toml: cannot be written: No such file"),
        (("calibrate", "TABLE", "-o", "/proc/mine"), "/proc/mine: cannot be made"),
        (("calibrate", "TABLE", "--hardware", "h1000"), "unknown GPU 'h1000'"),
        (("calibrate", "TABLE", "--stack", ""), "--stack: empty"),
    ],
)  # fmt: skip
def test_options_that_say_nothing(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "TABLE").write_bytes(table.read_bytes())
    (tmp_path / "TABLE.toml").write_bytes(table.read_bytes())
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    message = complaint(*arguments)
    assert said in message and len(message) < 1200
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_missing_extra_is_named(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    message = complaint("calibrate", str(table), "-o", str(tmp_path / "mine.toml"))
    assert "fitting needs scipy: pip install 'llm-costmodel[calibrate]'" in message
    assert not list(tmp_path.iterdir())


def test_several_stacks_need_a_folder(tmp_path: Path) -> None:
    rows = [{**row, "stack": stack} for stack in ("a-1", "b-1") for row in shapes("gemm")]
    path = timed(tmp_path / "t.csv", rows, [GEMM])
    message = complaint("calibrate", str(path), "-o", str(tmp_path / "one.toml"))
    assert "the tables hold several GPUs and stacks (h100-sxm, a-1; h100-sxm, b-1); pass a folder" in message
    assert asked("calibrate", str(path), "-o", str(tmp_path / "folder"))["files"] == [
        str(tmp_path / "folder" / f"h100-sxm--{stack}.toml") for stack in ("a-1", "b-1")
    ]


def test_too_few_rows(tmp_path: Path) -> None:
    rows: list[Row] = [{**BASE, "m": m, "n": 64, "k": 64, "time_us": 5} for m in range(1, 8)]
    message = complaint("calibrate", str(write(tmp_path / "t.csv", rows)))
    assert (
        "7 rows of 7 different runs, 4 of them not held out; a fit needs at least 8 different ones and 4"
        in message
    )


def test_kinds_that_are_no_operators_are_not_fitted(tmp_path: Path) -> None:
    copies = write(
        tmp_path / "copies.csv", [{"group": "own", "bytes": 10**6 * n, "time_ms": n} for n in range(1, 9)]
    )
    # a time of 1 ms a MB and nothing else
    (series,) = asked("calibrate", str(copies))["series"]
    assert series["bandwidth_bytes_per_s"] == pytest.approx(1e9)
    gemm = timed(tmp_path / "gemm.csv", shapes("gemm"), [GEMM])
    text = complaint("calibrate", str(copies), str(gemm))
    assert f"{copies}: holds kv_transfer, which is no operator of a step" in text
    # in a folder they are passed over
    assert [fit["operator"] for fit in asked("calibrate", str(tmp_path))["fits"]] == ["gemm"]


# A user's day: times twice as long


def test_doubled_times_double_what_the_fit_says(table: Path, tmp_path: Path) -> None:
    """Twice the time is half of each share and twice the latency: errors against the old fit, and the new fit."""
    slow, output = scaled(table, tmp_path / "slow.csv.gz", 2.0), tmp_path / "mine.toml"
    (old,) = asked("calibrate", str(table), "-o", str(output))["fits"]
    (new,) = asked("calibrate", str(slow))["fits"]
    for name in ("compute_share", "bandwidth_share"):
        assert new["parameters"][name] == pytest.approx(old["parameters"][name] / 2, rel=0.02)
    assert new["parameters"]["latency"] == pytest.approx(2 * old["parameters"]["latency"], rel=0.02)
    rows = asked("validate", "--measurements", str(slow), "--efficiency", str(output))["rows"]
    assert all(row["bias"] == pytest.approx(-0.5, abs=0.005) for row in rows)


def test_the_order_of_rows_does_not_matter(table: Path, tmp_path: Path) -> None:
    header, *lines = table.read_text().splitlines()
    random.Random(11).shuffle(lines)
    other = tmp_path / "gemm.csv"
    other.write_text("\n".join([header, *lines]))
    once, again = (asked("calibrate", str(path), "--source", "x") for path in (table, other))
    assert json.dumps(once) == json.dumps(again)
