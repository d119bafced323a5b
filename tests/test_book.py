"""The formula book as a whole: units, documentation, and one value by three roads."""

from __future__ import annotations

import doctest
import random
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest
import sympy

import costmodel.formulas
from costmodel.errors import InputError
from costmodel.formula import BOOK, Formula, formula
from costmodel.formulas import formula_named
from costmodel.quantities import QUANTITIES

Dimension = dict[str, Fraction]
ANY = {"any": Fraction(1)}  # the dimension of 0, which adds to everything
FORMULAS = [pytest.param(made, id=name) for name, made in sorted(BOOK.items())]


# --- dimensions -------------------------------------------------------------------------------------------


def dimension_of(unit: str) -> Dimension:
    """Parse "byte", "flop/second", "1/second" or "1"."""
    result: Dimension = {}
    for place, part in enumerate(unit.split("/")):
        assert part in ("1", "byte", "flop", "second"), unit
        if part != "1":
            result = product(result, {part: Fraction(1 if place == 0 else -1)})
    return result


def product(left: Dimension, right: Dimension) -> Dimension:
    total = {base: left.get(base, Fraction(0)) + right.get(base, Fraction(0)) for base in left | right}
    return {base: power for base, power in total.items() if power}


def common(expression: Any) -> Dimension:
    dimensions = [found for found in map(dimension, expression.args) if found != ANY]
    assert all(found == dimensions[0] for found in dimensions), f"{expression} adds {dimensions}"
    return dimensions[0]


def dimension(expression: Any) -> Dimension:
    """Dimension of a traced expression. Fails where a sum, extreme, power or rounding mixes dimensions."""
    if expression.is_Symbol:
        return dimension_of(QUANTITIES[expression.name].unit)
    if expression.is_number:
        return ANY if expression.is_zero else {}
    if expression.is_Add or isinstance(expression, sympy.Max | sympy.Min):
        return common(expression)
    if expression.is_Mul:
        result: Dimension = {}
        for factor in expression.args:
            result = product(result, dimension(factor))
        return result
    if isinstance(expression, sympy.Pow) and expression.exp.is_Rational:
        power = Fraction(int(expression.exp.p), int(expression.exp.q))
        return {base: exponent * power for base, exponent in dimension(expression.base).items()}
    allowed = sympy.Pow | sympy.ceiling | sympy.floor | sympy.exp | sympy.log
    assert isinstance(expression, allowed), f"no rule for {expression}"
    for part in expression.args:
        assert dimension(part) == {}, f"{part} must be a plain number in {expression}"
    return {}


def test_the_walker_itself() -> None:
    tokens, size, time, rate = (
        sympy.Symbol(name, positive=True) for name in ("tokens", "kv_bytes", "latency", "link_bytes_per_s")
    )
    assert dimension(size / rate + time) == {"second": Fraction(1)}
    assert dimension(sympy.Max(0, size) ** 3 / size) == {"byte": Fraction(2)}
    assert dimension(sympy.sqrt(size)) == {"byte": Fraction(1, 2)}
    assert dimension(sympy.ceiling(size / (3 * rate * time)) * tokens + 1) == {}
    assert dimension_of("flop/second") == {"flop": Fraction(1), "second": Fraction(-1)}
    assert dimension_of("1/second") == {"second": Fraction(-1)}
    assert dimension_of("1") == {}


def test_the_walker_refuses_what_does_not_add_up() -> None:
    tokens, size, time = (sympy.Symbol(name, positive=True) for name in ("tokens", "kv_bytes", "latency"))
    wrong = [
        size + time,
        size + 1,
        sympy.Max(size, time),
        sympy.Min(size, tokens),
        sympy.ceiling(size),
        tokens**time,
        size**tokens,
        sympy.log(time),
        sympy.exp(size),
        sympy.sin(tokens),
    ]
    for expression in wrong:
        with pytest.raises(AssertionError):
            dimension(expression)


@pytest.mark.parametrize("made", FORMULAS)
def test_unit_of_the_traced_expression(made: Formula) -> None:
    assert dimension(made.expression(keep_constants=True)) == dimension_of(made.unit)


def test_every_quantity_has_a_unit_a_symbol_and_a_meaning() -> None:
    for name, quantity in QUANTITIES.items():
        dimension_of(quantity.unit)
        assert quantity.latex and quantity.meaning, name


def test_every_quantity_is_one_of_a_formula() -> None:
    assert set(QUANTITIES) == {name for made in BOOK.values() for name in made.parameters}


@pytest.mark.parametrize("made", FORMULAS)
def test_no_symbol_means_two_things_in_a_formula(made: Formula) -> None:
    symbols = [QUANTITIES[name].latex for name in made.parameters if name not in made.constants]
    assert len({made.symbol, *symbols}) == len(symbols) + 1


# --- documentation ----------------------------------------------------------------------------------------


@cache
def doctests(module: str) -> dict[str, list[doctest.Example]]:
    found = doctest.DocTestFinder().find(sys.modules[module], module)
    return {case.name.rpartition(".")[2]: case.examples for case in found}


@pytest.mark.parametrize("made", FORMULAS)
def test_documentation(made: Formula) -> None:
    assert made.symbol.strip() and len(made.source.strip()) >= len("definition")
    assert all(sentence.strip() for sentence in made.assumes)
    assert (made.__doc__ or "").split("\n")[0].strip()
    examples = doctests(made.__module__)[made.name]
    assert any(made.name + "(" in example.source for example in examples)
    assert any(character.isdigit() for character in examples[-1].want)


@pytest.mark.parametrize("made", FORMULAS)
def test_latex_names_every_symbol_that_stays(made: Formula) -> None:
    left, _, right = made.latex().partition(" = ")
    assert left == made.symbol and right.strip()
    for symbol in made.expression().free_symbols:
        assert QUANTITIES[symbol.name].latex in right
    assert right.count("{") == right.count("}")


def test_latex_of_one_formula_in_full() -> None:
    assert BOOK["transfer_bound"].latex() == r"t_w = \frac{S}{\mathrm{BW}}"
    assert BOOK["attention_flop"].latex() == r"F = 2 n_h n_{qk} \left(d_{qk} + d_v\right)"


# --- one value by three roads -----------------------------------------------------------------------------

NARROW = {
    # top_k < experts, and rate * service < 1 whatever the number of servers
    "experts": (8, 60),
    "top_k": (2, 6),
    "speedup": (1.1, 1.9),
    # yes or no
    **dict.fromkeys(("packed", "repacking", "cache_writes"), (0, 1)),
    **dict.fromkeys(
        (
            "rate",
            "service",
            "utilisation",
            "piggyback",
            "piggyback_fixed",
            "compute_share",
            "bandwidth_share",
            "quantise_share",
        ),
        (0.1, 0.9),
    ),
}
POINTS = 4


def samples(made: Formula, seed: int) -> dict[str, list[float]]:
    """Return random values of each parameter that is not structural: counts whole, shares below 1."""
    draw = random.Random(f"{made.name} {seed}")

    def one(name: str) -> float:
        low, high = NARROW.get(name, (3, 60))
        whole = QUANTITIES[name].unit == "1" and isinstance(low, int)
        return float(draw.randint(int(low), int(high))) if whole else draw.uniform(low, high)

    return {name: [one(name) for _ in range(POINTS)] for name in made.symbols()}


@pytest.mark.parametrize("made", FORMULAS)
@pytest.mark.parametrize("seed", [1, 2])
def test_number_array_and_symbol_agree(made: Formula, seed: int) -> None:
    columns = samples(made, seed)
    numbers = [
        made(**{name: column[i] for name, column in columns.items()}, **made.structural)
        for i in range(POINTS)
    ]
    arrays = {name: numpy.array(column) for name, column in columns.items()}
    traced = made.expression(keep_constants=True)
    compiled = sympy.lambdify([made.symbols()[name] for name in columns], traced, "numpy")
    assert all(numpy.isfinite(numbers))
    numpy.testing.assert_allclose(made(**arrays, **made.structural), numbers, rtol=1e-12)
    numpy.testing.assert_allclose(compiled(*arrays.values()), numbers, rtol=1e-9)


@pytest.mark.parametrize("made", [made for made in BOOK.values() if made.constants], ids=repr)
def test_constants_left_out_are_those_of_the_trace(made: Formula) -> None:
    columns = {name: column for name, column in samples(made, 3).items() if name not in made.constants}
    point = {name: column[0] for name, column in columns.items()}
    value = made.expression().subs({made.symbols()[name]: number for name, number in point.items()})
    assert float(value) == pytest.approx(made(**point, **made.structural), rel=1e-9)


def test_integer_arrays_do_not_overflow() -> None:
    side = numpy.array([10**7])
    assert BOOK["gemm_flop"](side, side, side)[0] == 2e21
    assert BOOK["gemm_flop"](m=side, n=side, k=side)[0] == 2e21


# --- the book ---------------------------------------------------------------------------------------------


def test_every_topic_file_is_in_the_book() -> None:
    (folder,) = costmodel.formulas.__path__
    topics = {f"costmodel.formulas.{path.stem}" for path in Path(folder).glob("[a-z]*.py")}
    assert {made.__module__ for made in BOOK.values()} == topics
    for name, made in BOOK.items():
        assert getattr(sys.modules[made.__module__], name) is made


def test_importing_the_book_is_cheap() -> None:
    program = (
        "import sys, costmodel.formulas as book\n"
        "print(len(book.BOOK), *{'numpy', 'sympy', 'pint'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(BOOK))]


def test_formula_named() -> None:
    assert formula_named("gemm_flop") is BOOK["gemm_flop"]
    with pytest.raises(InputError, match=r"unknown formula 'gem_flops'; did you mean 'gemm_flop'\?"):
        formula_named("gem_flops")


def test_a_parameter_outside_the_table_is_refused() -> None:
    def made_up(gem_rows: Any) -> Any:
        return gem_rows

    with pytest.raises(TypeError, match=r"made_up: unknown quantity 'gem_rows'"):
        formula(unit="1", source="definition", symbol="x")(made_up)
    assert "made_up" not in BOOK


def test_a_second_formula_of_a_name_is_refused() -> None:
    first = BOOK["gemm_flop"]

    def gemm_flop(m: Any) -> Any:
        return m

    with pytest.raises(TypeError, match="gemm_flop is already in the book"):
        formula(unit="flop", source="definition", symbol="F")(gemm_flop)
    assert BOOK["gemm_flop"] is first
