"""The pages of ``costmodel explain``: a formula, a term, the whole book, the glossary."""

from __future__ import annotations

from ..answer import About
from ..questions.explain import Book, FormulaEntry, Glossary, TermEntry
from .page import Block, Code, Heading, Page, Table, table

PARAMETERS = {
    "name": "parameter",
    "symbol": "symbol",
    "unit": "unit",
    "meaning": "meaning",
    "default": "constant",
}
TERMS = {"name": "term", "unit": "unit", "symbol": "symbol", "meaning": "meaning"}


def page(answer: FormulaEntry | TermEntry | Book | Glossary, detail: bool) -> Page:
    """Return the page of an answer."""
    if isinstance(answer, TermEntry):
        known = {"unit": answer.unit, "symbol": answer.symbol}
        rows = tuple((label, text) for label, text in known.items() if text)
        units = (Table((), rows, (False, False)),) if rows else ()
        return Page(answer.name, (answer.meaning, *units), answer.about, cite=True)
    if isinstance(answer, Glossary):
        quantities = Heading("Parameters of formulas"), table(answer.quantities, TERMS)
        return Page("Glossary", (table(answer.terms, TERMS), *quantities), answer.about)
    if isinstance(answer, Book):
        blocks: list[Block] = []
        for topic, entries in answer.topics.items():
            blocks.append(Heading(topic))
            for entry in entries:
                blocks += [Heading(entry.name, 3), *formula(entry), *_footing(entry.about)]
        return Page("The formula book", tuple(blocks), answer.about)
    return Page(answer.name, tuple(formula(answer)), answer.about, cite=True)


def formula(entry: FormulaEntry) -> list[Block]:
    """Return the blocks of one formula."""
    blocks: list[Block] = [entry.description, f"Unit: {entry.unit}"]
    if entry.latex:
        blocks.insert(0, Code(entry.latex, "latex"))
    blocks.append(table(entry.parameters, PARAMETERS))
    return [*blocks, Code(entry.example, "python")] if entry.example else blocks


def _footing(about: About) -> list[Block]:
    assumed = [f"Assumed: {'; '.join(about.assumptions)}."] if about.assumptions else []
    return [*assumed, f"Source: {'; '.join(about.sources)}."]
