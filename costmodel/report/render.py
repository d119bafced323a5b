"""Answers as JSON, markdown or plain text; the module of this package named in the schema makes the page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import Any

from ..answer import About
from .page import Block, Code, Heading, Page, Table

FORMATS = ("table", "markdown", "json")


def render(answer: Any, form: str, *, detail: bool = False, explain: bool = False) -> str:
    """Return an answer (a dataclass with ``schema`` and ``about``) in one of :data:`FORMATS`.

    ``explain`` adds the formulas behind it, where the command's page has an ``explained``.
    """
    if form == "json":
        return to_json(answer)
    command = answer.schema.removeprefix("costmodel.").split("/")[0]
    module = import_module(f"{__package__}.{command.replace('-', '_')}")
    page: Page = module.page(answer, detail)
    if explain:
        page = replace(page, extra=(*page.extra, *module.explained(answer)), cite=True)
    if form == "table" and page.screen is not None and not (detail or explain):
        return page.screen
    return _markdown(page, detail) if form == "markdown" else _plain(page, detail)


def to_json(answer: Any) -> str:
    """Return the fields of an answer as a JSON object: SI floats, null for None, NaN and infinity."""
    return json.dumps(_jsonable(answer), indent=2, allow_nan=False)


def refusal(schema: str, error: str, reason: str) -> str:
    """Return the JSON object of a question that has no answer."""
    return json.dumps({"schema": schema, "error": error, "reason": reason}, indent=2)


def _jsonable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for field in fields(value):
            inner = getattr(value, field.name)
            if isinstance(inner, About):
                found |= _jsonable(inner)
            else:
                found[field.name] = _jsonable(inner)
        return found
    if isinstance(value, Mapping):
        return {str(key): _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_jsonable(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _plain(page: Page, detail: bool) -> str:
    blocks = (page.title, *page.blocks) if page.screen is None else (page.screen,)
    parts = [plain_block(block) for block in (*blocks, *page.extra)]
    about = page.about
    notes = [f"warning: {text}" for text in about.warnings]
    notes += [f"assumed: {'; '.join(about.assumptions)}"] if about.assumptions else []
    notes += [f"not modelled: {'; '.join(about.not_modelled)}"] if about.not_modelled else []
    if about.sources and (page.cite or detail):
        notes += ["sources:", *(f"  [{number}] {text}" for number, text in enumerate(about.sources, 1))]
    elif about.sources:
        notes += ["sources: with --detail"]
    return "\n\n".join([*parts, "\n".join(notes)]).strip()


def plain_block(block: Block) -> str:
    """Return a block as text."""
    if isinstance(block, Table):
        return _tabulated(block, "plain" if not block.headers else "simple")
    if isinstance(block, Code):
        return "\n".join(f"    {line}" for line in block.text.splitlines())
    return f"{block.text}\n{'-' * len(block.text)}" if isinstance(block, Heading) else block


def _markdown(page: Page, detail: bool) -> str:
    parts = [f"# {page.title}", *(_markdown_block(block) for block in (*page.blocks, *page.extra))]
    about = page.about
    lists = {"Warnings": about.warnings, "Assumed": about.assumptions, "Not modelled": about.not_modelled}
    for heading, texts in lists.items():
        if texts:
            parts.append(f"**{heading}**\n\n" + "\n".join(f"- {text}" for text in texts))
    if about.sources and (page.cite or detail):
        cited = "\n".join(f"{number}. {text}" for number, text in enumerate(about.sources, 1))
        parts.append(f"**Sources**\n\n{cited}")
    return "\n\n".join(parts)


def _markdown_block(block: Block) -> str:
    if isinstance(block, Table):
        rows = tuple(tuple(cell.replace("|", "\\|") for cell in row) for row in block.rows)
        return _tabulated(Table(block.headers or ("",) * len(block.right), rows, block.right), "github")
    if isinstance(block, Code):
        return (
            f"$$\n{block.text}\n$$"
            if block.language == "latex"
            else f"```{block.language}\n{block.text}\n```"
        )
    return f"{'#' * block.level} {block.text}" if isinstance(block, Heading) else block


def _tabulated(block: Table, style: str) -> str:
    from tabulate import tabulate

    if not block.rows:
        return "(none)"
    aligned = tuple("right" if right else "left" for right in block.right)
    return tabulate(block.rows, block.headers, tablefmt=style, colalign=aligned, disable_numparse=True)
