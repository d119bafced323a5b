"""Imports run one way: docs/architecture.md says which, and holds every module."""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "costmodel"
ROWS = re.findall(r"^\| (.+) \| (`.+`) \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
#: part of the package -> its row, counted from the top of the table
LAYER = {part: row for row, (_, parts) in enumerate(ROWS) for part in re.findall(r"`(\w+)`", parts)}
FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if file != PACKAGE / "__init__.py"]


def module_of(file: Path) -> tuple[str, ...]:
    """The dotted name below the package, as a tuple; a package is named by its folder."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(file): file for file in FILES}


def imported(file: Path) -> set[tuple[str, ...]]:
    """Modules of the package that a file imports, also inside functions."""
    own = file.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        target = (*own[: len(own) + 1 - node.level], *(node.module.split(".") if node.module else ()))
        names = {(*target, alias.name) for alias in node.names}
        found |= {name if name in MODULES else target for name in names}
    return found & MODULES.keys()


def test_every_module_stands_in_one_row() -> None:
    listed = [part for _, parts in ROWS for part in re.findall(r"`(\w+)`", parts)]
    assert len(ROWS) >= 8 and len(listed) == len(set(listed))
    assert set(listed) == {name[0] for name in MODULES}


@pytest.mark.parametrize("name", MODULES, ids=".".join)
def test_no_import_goes_up(name: tuple[str, ...]) -> None:
    up = {".".join(other) for other in imported(MODULES[name]) if LAYER[other[0]] < LAYER[name[0]]}
    assert not up


def test_no_module_imports_itself_in_a_circle() -> None:
    left = {name: imported(file) - {name} for name, file in MODULES.items()}
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"these import each other: {sorted(map('.'.join, left))}"


def test_modules_stay_short() -> None:
    assert {str(f) for f in FILES if len(f.read_text().splitlines()) >= 400} == set()


def test_every_package_is_installed() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    folders = {path.parent for path in (ROOT / "costmodel").rglob("__init__.py")}
    assert {".".join(folder.relative_to(ROOT).parts) for folder in folders} == {
        name for name in listed if "._" not in name
    }
