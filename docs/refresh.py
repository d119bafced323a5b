"""Renew what is generated: python docs/refresh.py, from anywhere.

Writes the pages that a command prints, the kept output of the library example and the outputs in the
README's examples. An output that ends in ``...`` keeps its number of lines. The tests call the same functions
and compare.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from costmodel.cli import main as costmodel

ROOT = Path(__file__).resolve().parent.parent
CUT = "..."
PAGES = {
    "docs/glossary.md": "costmodel explain --terms -f markdown",
    "docs/formulas.md": "costmodel explain --all -f markdown",
    "examples/recommend_hphd.md": "costmodel recommend deepseek-ai/DeepSeek-V2-Lite --hardware a100-sxm-80gb"
    " --topology 2P2D --link ib-hdr --workload hphd --method closed -f markdown",
    "examples/library_example.out": "python examples/library_example.py",
    "examples/flagship.md": "python examples/flagship.py",
}
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def output(command: str) -> str:
    """What a command prints. Raises RuntimeError where it fails."""
    program, *arguments = shlex.split(command)
    if program == "python":
        script = [sys.executable, str(ROOT / arguments[0]), *arguments[1:]]
        return subprocess.run(script, capture_output=True, text=True, check=True).stdout
    result = CliRunner().invoke(costmodel, arguments, prog_name="costmodel")
    if result.exit_code:
        raise RuntimeError(f"{command}: exit code {result.exit_code}\n{result.output}")
    return result.stdout


def examples(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, as written, each with the output shown."""
    parts = re.split(r"^(\$ (?:.*\\\n)*.*\n)", block, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2]))


def renewed(block: str) -> str:
    """A console block with its commands run again."""
    text = ""
    for written, shown in examples(block):
        lines = output(written.removeprefix("$ ").replace("\\\n", " ")).strip("\n").split("\n")
        kept = shown.strip("\n").split("\n")
        if kept[-1] == CUT:
            lines = [*lines[: len(kept) - 1], CUT]
        text += written + "\n".join(lines) + "\n" * max(1, len(shown) - len(shown.rstrip("\n")))
    return text


class Library(doctest.DocTestRunner):
    """Runs the README's library examples and keeps what they print now."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[tuple[str, str]] = []

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        """Keep a result that is not the one shown."""
        self.changed.append((example.want, got))

    def report_unexpected_exception(
        self, out: object, test: object, example: doctest.Example, exc_info: object
    ) -> None:
        """An example that fails has nothing to show. Raises RuntimeError."""
        raise RuntimeError(f"README.md: {example.source.strip()} fails: {exc_info}")


def library(text: str) -> list[tuple[str, str]]:
    """What the python blocks of a text show and now print, where the two differ."""
    source = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    runner = Library()
    runner.run(doctest.DocTestParser().get_doctest(source, {}, "README.md", "README.md", 0))
    return runner.changed


def main() -> None:
    """Write all of it."""
    for file, command in PAGES.items():
        (ROOT / file).write_text(output(command))
    readme = ROOT / "README.md"
    text = readme.read_text()
    for shown, now in library(text):
        text = text.replace(shown, now)
    readme.write_text(BLOCK.sub(lambda found: f"```console\n{renewed(found[1])}```", text))


if __name__ == "__main__":
    main()
