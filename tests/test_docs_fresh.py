"""Generated documents are what their command prints now, and the notes say what their scripts find."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MEASURED = ROOT.parent / "shared" / "measured"
REFRESH = runpy.run_path(str(ROOT / "docs" / "refresh.py"))


@pytest.mark.parametrize(("file", "command"), REFRESH["PAGES"].items())
def test_generated_page_is_fresh(file: str, command: str) -> None:
    fresh = (ROOT / file).read_text() == REFRESH["output"](command)
    assert fresh, f"{file} is not what {command!r} prints; if the change is meant: python docs/refresh.py"


@pytest.mark.skipif(not MEASURED.is_dir(), reason="the measurements are not beside this checkout")
def test_errors_of_borrowed_fits_are_those_of_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "docs" / "validation"
    monkeypatch.syspath_prepend(str(folder))
    carried = runpy.run_path(str(folder / "carry_over.py"))["carried"](MEASURED)
    note = (folder / "first_fit.md").read_text()
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) / ([\d.]+) \| ([\d.]+) / ([\d.]+) \|$", note, re.MULTILINE)
    assert [row[0] for row in rows] == ["gemm", "attention_prefill", "attention_decode"]
    for operator, *figures in rows:
        found = (*carried["a100-sxm-80gb", operator], *carried["h100-sxm", operator])
        assert [f"{100 * error:.1f}" for error in found] == figures, operator


def test_every_validation_note_is_in_the_index() -> None:
    folder = ROOT / "docs" / "validation"
    linked = set(re.findall(r"\]\((\w+\.md)\)", (folder / "README.md").read_text()))
    assert linked == {file.name for file in folder.glob("*.md")} - {"README.md"}
