"""Generated documents are what their command prints now, and the notes say what their scripts find."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REFRESH = runpy.run_path(str(ROOT / "docs" / "refresh.py"))


@pytest.mark.parametrize(("file", "command"), REFRESH["PAGES"].items())
def test_generated_page_is_fresh(file: str, command: str) -> None:
    fresh = (ROOT / file).read_text() == REFRESH["output"](command)
    assert fresh, f"{file} is not what {command!r} prints; if the change is meant: python docs/refresh.py"


def test_every_validation_note_is_in_the_index() -> None:
    folder = ROOT / "docs" / "validation"
    linked = set(re.findall(r"\]\((\w+\.md)\)", (folder / "README.md").read_text()))
    assert linked == {file.name for file in folder.glob("*.md")} - {"README.md"}
