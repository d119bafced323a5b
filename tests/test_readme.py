"""Every example of the README is run again and compared with what it shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
REFRESH = runpy.run_path(str(ROOT / "docs" / "refresh.py"))
BLOCKS = REFRESH["BLOCK"].findall(README)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split("\n")[0][2:60] for block in BLOCKS])
def test_console_example(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert block == REFRESH["renewed"](block), "if the change is meant: python docs/refresh.py"


def test_python_examples() -> None:
    assert len(re.findall("^>>> ", README, re.MULTILINE)) >= 5
    assert REFRESH["library"](README) == [], "if the change is meant: python docs/refresh.py"


def test_a_stale_library_example_is_seen() -> None:
    assert REFRESH["library"]("```python\n>>> 1 + 1\n3\n>>> 2\n2\n```\n") == [("3\n", "2\n")]


def test_worked_examples_and_the_set_up() -> None:
    shown = "".join(BLOCKS)
    for command in ("recommend", "break-even", "step", "kv", "transfer"):
        assert f"$ costmodel {command} " in shown
    setup = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0].strip().split("\n")
    assert len(setup) == 2 and setup[1].endswith("pytest -n 2")
    assert "pip install ." in setup[0] and "costmodel recommend deepseek-ai/DeepSeek-V2-Lite" in setup[0]


def test_an_output_cut_by_dots_keeps_its_lines() -> None:
    block = "$ costmodel kv Llama-3.1-8B \\\n    --tokens 1\nolder\nlines\n...\n\n$ costmodel --version\nx\n"
    first, second = REFRESH["examples"](REFRESH["renewed"](block))
    assert first[0] == "$ costmodel kv Llama-3.1-8B \\\n    --tokens 1\n"
    assert first[1].startswith("KV cache of meta-llama/Llama-3.1-8B: 1 token") and first[1].count("\n") == 4
    assert second[1].startswith("costmodel, version ")


def test_links_lead_somewhere() -> None:
    targets = [t for t in re.findall(r"\]\(([^)#]+)", README) if "://" not in t]
    assert targets and all((ROOT / target).exists() for target in targets)
