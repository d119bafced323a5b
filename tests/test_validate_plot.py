"""``validate --plot``: a picture of predicted against measured, or one message and no file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from cli_runner import run
from written_tables import shapes, timed, write

from costmodel.errors import InputError
from costmodel.questions import validate_plot
from costmodel.questions.validate import ask_validate

pytest.importorskip("matplotlib")
STARTS = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG\r\n"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for kind in ("gemm", "moe", "mla", "generation_attention"):
        rows = [{**row, "stack": "vllm-0.24.0"} for row in shapes(kind)]
        timed(folder / f"{kind}.csv", rows, [], noise=0.2)
    return folder


@pytest.mark.parametrize("suffix", STARTS)
def test_a_picture_in_the_format_of_its_name(tables: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"errors{suffix}"
    answer = ask_validate(measurements=tables, plot=target)
    assert target.read_bytes().startswith(STARTS[suffix]) and target.stat().st_size > 5000
    assert [entry.name for entry in tmp_path.iterdir()] == [target.name]
    assert answer.rows == ask_validate(measurements=tables).rows


def test_a_panel_for_each_kind_with_both_splits(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda self, target, format: figures.append(self))
    ask_validate(measurements=tables, plot=tmp_path / "t.png")
    (figure,) = figures
    panels = {panel.get_title(): panel for panel in figure.axes if panel.get_visible()}
    assert list(panels) == ["gemm", "generation_attention", "mla", "moe"]
    points = {}
    for kind, panel in panels.items():
        labels = [text.get_text() for text in panel.get_legend().get_texts()]
        assert labels in (["fitted", "held out"], ["held out"])
        assert panel.get_xscale() == panel.get_yscale() == "log"
        assert panel.get_xlabel() == "measured, us" and panel.get_ylabel() == "predicted, us"
        points[kind] = np.concatenate([part.get_offsets() for part in panel.collections])
    # as many points as rows, and as far from the diagonal as the times were moved
    assert {kind: len(found) for kind, found in points.items()} == {
        kind: len(shapes(kind)) for kind in points
    }
    for measured, predicted in points["gemm"]:
        assert predicted / measured == pytest.approx(1, abs=0.26)


def test_few_of_many_points_are_drawn(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_plot, "MOST", 10)
    full, sparse = tmp_path / "full.svg", tmp_path / "sparse.svg"
    ask_validate(measurements=tables, plot=sparse)
    monkeypatch.undo()
    ask_validate(measurements=tables, plot=full)
    assert sparse.stat().st_size < full.stat().st_size / 2


@pytest.mark.parametrize("name", ["errors", "errors.jpg", "errors.toml", ".png"])
def test_a_name_that_says_no_format(tables: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"expected a name that ends in \.png, \.svg, \.pdf"):
        ask_validate(measurements=tables, plot=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_matplotlib_is_asked_for_where_it_is_missing(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"--plot needs matplotlib: pip install 'llm-costmodel\[plot\]'"):
        ask_validate(measurements=tables, plot=tmp_path / "t.png")
    assert not list(tmp_path.iterdir())
    assert ask_validate(measurements=tables).rows


def test_a_picture_that_cannot_be_written(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    for target, said in (
        (tmp_path / "absent" / "t.png", "cannot be written: No such file or directory"),
        (tmp_path / "folder.png", "cannot be written: Is a directory"),
    ):
        with pytest.raises(InputError) as caught:
            ask_validate(measurements=tables, plot=target)
        assert str(caught.value) == f"{target}: {said}"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.png"]


def test_nothing_to_draw(tmp_path: Path) -> None:
    rows = [{"group": "own", "bytes": 10**6 * n, "time_ms": n} for n in range(1, 9)]
    path = write(tmp_path / "copies.csv", rows)
    with pytest.raises(InputError, match="--plot draws operators, and none were compared"):
        ask_validate(measurements=path, plot=tmp_path / "t.png")


def test_the_option(tables: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.svg"
    result = run("validate", "gemm", "--measurements", str(tables), "--plot", str(target))
    assert result.exit_code == 0 and target.read_bytes().startswith(b"<?xml")
    result = run("validate", "gemm", "--measurements", str(tables), "--plot", str(tmp_path / "t.jpg"))
    assert result.exit_code == 2 and "ends in .png, .svg, .pdf" in result.output
    assert "Traceback" not in result.output
