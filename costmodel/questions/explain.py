"""A formula of the book with its LaTeX, a term, and the glossary. The one question that needs sympy."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from ..answer import About
from ..errors import InputError, unknown
from ..formula import Formula
from ..formulas import BOOK
from ..operators.catalogue import FORMS
from ..quantities import QUANTITIES, TERMS

SCHEMA = "costmodel.explain/1"
OWN = About(sources=("definitions of this project",))


@dataclass(frozen=True)
class Parameter:
    """A parameter of a formula; ``default`` is the value of a dimensioned constant."""

    name: str
    symbol: str
    unit: str
    meaning: str
    default: float | None


@dataclass(frozen=True)
class FormulaEntry:
    """A formula as it stands in the book; ``latex`` None where it was not traced."""

    schema: str
    name: str
    latex: str | None
    unit: str
    description: str
    example: str
    parameters: tuple[Parameter, ...]
    about: About


@dataclass(frozen=True)
class Book:
    """Every formula, by topic (the module it lives in)."""

    schema: str
    topics: dict[str, tuple[FormulaEntry, ...]]
    about: About


@dataclass(frozen=True)
class Term:
    """A word of the field or a parameter of the book."""

    name: str
    unit: str
    symbol: str
    meaning: str


@dataclass(frozen=True)
class TermEntry:
    """One word of the glossary."""

    schema: str
    name: str
    unit: str
    symbol: str
    meaning: str
    about: About


@dataclass(frozen=True)
class Glossary:
    """The field's terms, and the parameters of formulas."""

    schema: str
    terms: tuple[Term, ...]
    quantities: tuple[Term, ...]
    about: About


def ask_explain(name: str) -> FormulaEntry | TermEntry:
    """Return a formula of the book, or a term or parameter of the glossary, in any case and spelling of gaps.

    Raises InputError, with the nearest of all of them, if there is none.
    """
    names = {_folded(known): known for known in (*FORMS, *QUANTITIES, *TERMS, *BOOK)}
    found = names.get(_folded(name))
    if found is None:
        remedy = "(costmodel show formulas and costmodel explain --terms list all)"
        raise InputError(unknown("formula or term", name, names.values(), remedy=remedy))
    if found in BOOK:
        return formula_entry(BOOK[found])
    if found in FORMS and found not in TERMS and found not in QUANTITIES:
        return formula_entry(FORMS[found].formula)
    return TermEntry(SCHEMA, found, *(TERMS[found] if found in TERMS else QUANTITIES[found]), about=OWN)


def _folded(name: str) -> str:
    return name.lower().replace("-", " ").replace("_", " ")


def ask_book() -> Book:
    """Return the whole book."""
    topics: dict[str, tuple[FormulaEntry, ...]] = {}
    for made in BOOK.values():
        topic = made.__module__.rsplit(".", 1)[-1]
        topics[topic] = (*topics.get(topic, ()), formula_entry(made))
    return Book(SCHEMA, topics, About())


def ask_glossary() -> Glossary:
    """Return the glossary."""
    terms = tuple(Term(name, *fields) for name, fields in TERMS.items())
    quantities = tuple(Term(name, *quantity) for name, quantity in QUANTITIES.items())
    return Glossary(SCHEMA, terms, quantities, OWN)


def formula_entry(made: Formula, *, traced: bool = True, schema: str = SCHEMA) -> FormulaEntry:
    """Return the entry of a formula; ``traced``: with LaTeX, which imports sympy."""
    text = inspect.cleandoc(made.__doc__ or "")
    start = text.find(">>>")
    description, example = (text, "") if start < 0 else (text[:start], text[start:])
    parameters = tuple(
        Parameter(name, known.latex, known.unit, known.meaning, made.constants.get(name))
        for name, known in ((name, QUANTITIES[name]) for name in made.parameters)
    )
    return FormulaEntry(
        schema=schema,
        name=made.name,
        latex=made.latex() if traced else None,
        unit=made.unit,
        description=description.strip(),
        example=example.strip(),
        parameters=parameters,
        about=About(assumptions=made.assumes, sources=(made.source,)),
    )
