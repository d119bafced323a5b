"""Unit texts: every factor against pint, accepted and refused spellings, printing in SI prefixes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.units import UNITS, Dimension, format_si, parse, parse_option

PREFIXES = {
    "": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta",
    "Ki": "kibi", "Mi": "mebi", "Gi": "gibi", "Ti": "tebi",
}  # fmt: skip
LONG_NAMES = {
    "ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour",
    "/s": "1/second", "1/s": "1/second", "req/s": "1/second", "W": "watt", "kW": "kilowatt",
    "flop/s": "operation/second",
}  # fmt: skip
STEMS = {"B": "byte", "b": "bit", "bit": "bit", "FLOP": "operation"}


def long_name(symbol: str) -> str:
    """Spell a symbol out, so that pint reads a name and not the symbol under test."""
    if symbol in LONG_NAMES:
        return LONG_NAMES[symbol]
    found = re.fullmatch(r"([kKMGTP]i?)?(B|bit|b|FLOP)(/s)?", symbol)
    assert found is not None, symbol
    return PREFIXES[found[1] or ""] + STEMS[found[2]] + ("/second" if found[3] else "")


@pytest.fixture(scope="module")
def registry() -> Any:
    pint = pytest.importorskip("pint")
    made = pint.UnitRegistry()
    made.define("operation = [operation]")
    return made


@pytest.mark.parametrize("symbol", [symbol for symbol, unit in UNITS.items() if unit.dimension != "token"])
def test_factor_equals_pint(symbol: str, registry: Any) -> None:
    dimension = UNITS[symbol].dimension
    target = dimension.replace("flop", "operation")
    expected = registry.Quantity(1.0, long_name(symbol)).to(target).magnitude
    assert parse(f"1 {symbol}", dimension, "x") == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("3.35 TB/s", "byte/second", 3.35e12),
        ("200 Gb/s", "byte/second", 25e9),
        ("200 Gbit/s", "byte/second", 25e9),
        ("8 b/s", "byte/second", 1.0),
        ("80 GB", "byte", 80_000_000_000),
        ("80 GiB", "byte", 85_899_345_920),
        ("64 kB", "byte", 64_000),
        ("64 KiB", "byte", 65_536),
        ("312 TFLOP/s", "flop/second", 312e12),
        ("19.5 TFLOP/s", "flop/second", 19.5e12),
        ("1 PFLOP/s", "flop/second", 1e15),
        ("6.2 us", "second", 6.2e-6),
        ("22.5 ns", "second", 22.5e-9),
        ("1.5 min", "second", 90),
        ("2 h", "second", 7200),
        ("1e-3 s", "second", 0.001),
        (".5 s", "second", 0.5),
        ("0 us", "second", 0),
        ("10 req/s", "1/second", 10),
        ("10 /s", "1/second", 10),
        ("10 1/s", "1/second", 10),
        ("700 W", "watt", 700),
        ("0.9", "1", 0.9),
        ("2048", "token", 2048),
        ("2048 tokens", "token", 2048),
    ],
)
def test_accepted(text: str, dimension: Dimension, value: float) -> None:
    assert parse(text, dimension, "x") == value
    assert parse_option(text, dimension, "--x") == value


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("2s", "second", 2),
        ("50ms", "second", 0.05),
        ("25GB/s", "byte/second", 25e9),
        ("200Gb/s", "byte/second", 25e9),
        ("80GiB", "byte", 85_899_345_920),
        ("4req/s", "1/second", 4),
        ("101/s", "1/second", 101),
        (" 2 s ", "second", 2),
    ],
)
def test_options_need_no_space_but_data_does(text: str, dimension: Dimension, value: float) -> None:
    assert parse_option(text, dimension, "--x") == value
    with pytest.raises(InputError):
        parse(text, dimension, "x")


@pytest.mark.parametrize(
    ("dimension", "bare_option", "bare_data"),
    [
        ("second", True, False),
        ("1/second", True, False),
        ("token", True, True),
        ("1", True, True),
        ("byte", False, False),
        ("byte/second", False, False),
        ("flop/second", False, False),
        ("watt", False, False),
    ],
)
def test_bare_numbers(dimension: Dimension, bare_option: bool, bare_data: bool) -> None:
    for reader, accepted in ((parse_option, bare_option), (parse, bare_data)):
        if accepted:
            assert reader("7", dimension, "x") == 7
        else:
            with pytest.raises(InputError, match="unit is missing"):
                reader("7", dimension, "x")


REFUSED: list[tuple[str, Dimension, str]] = [
    ("80Gb", "byte", "Gb is gigabit; write '80 GB' (decimal) or '80 GiB' (binary)"),
    ("80 Gb", "byte", "Gb is gigabit; write '80 GB' (decimal) or '80 GiB' (binary)"),
    ("80 Kb", "byte", "Kb is kilobit; write '80 kB' (decimal) or '80 KiB' (binary)"),
    ("200 Gb", "byte/second", "write '200 Gb/s' (bits) or '200 GB/s' (bytes)"),
    ("3,35 TB/s", "byte/second", "write a point: '3.35 TB/s'"),
    ("3,350 GB/s", "byte/second", "write '3.350 GB/s' (a decimal point) or '3350 GB/s'"),
    ("1,234,567 B", "byte", "separators between digits"),
    ("1.234,5 kB", "byte", "separators between digits"),
    ("1_000 GB", "byte", "separators between digits"),
    ("1 000 GB", "byte", "separators between digits"),
    ("1'000 GB", "byte", "separators between digits"),
    ("1.2.3 s", "second", "separators between digits"),
    ("nan s", "second", "not a finite number"),
    ("NaN", "1", "not a finite number"),
    ("inf s", "second", "not a finite number"),
    ("-inf", "1/second", "not a finite number"),
    ("1e400 s", "second", "too large"),
    ("-5 s", "second", "negative"),
    ("-1", "1", "negative"),
    ("", "byte", "empty"),
    ("fast", "byte/second", "does not start with a number"),
    ("١ s", "second", "does not start with a number"),
    ("gb/s", "byte/second", "does not start with a number"),
    ("25 gb/s", "byte/second", "case matters; did you mean 'GB/s' or 'Gb/s'?"),
    ("2 tb/s", "byte/second", "case matters; did you mean 'TB/s' or 'Tb/s'?"),
    ("5 mS", "second", "case matters; did you mean 'ms'?"),
    ("5 KB", "byte", "case matters; did you mean 'kB'?"),
    ("25 GB", "byte/second", "GB measures an amount of bytes; expected a bandwidth"),
    ("25 GB/s", "byte", "GB/s measures a bandwidth; expected an amount of bytes"),
    ("5 ms", "1/second", "ms measures a time; expected a rate"),
    ("25 GBps", "byte/second", "did you mean 'GB/s'?"),
    ("25 Gbps", "byte/second", "did you mean 'Gb/s'?"),
    ("312 TFLOPS", "flop/second", "did you mean 'TFLOP/s'?"),
    ("5 µs", "second", "did you mean 'us'?"),
    ("5 seconds", "second", "did you mean 's'?"),
    ("80 G", "byte", "did you mean 'GB'?"),
    ("8k", "token", "8000 or 8192"),
    ("128 K", "token", "128000 or 131072"),
    ("0.5", "token", "whole"),
    ("90 %", "1", "'0.9'"),
    ("90 parts", "1", "without a unit"),
]


@pytest.mark.parametrize(("text", "dimension", "expected"), REFUSED)
def test_refused(text: str, dimension: Dimension, expected: str) -> None:
    for reader in (parse, parse_option):
        with pytest.raises(InputError) as caught:
            reader(text, dimension, "--the-option")
        assert expected in str(caught.value)
        assert str(caught.value).startswith("--the-option: ")
        assert text in str(caught.value)


@pytest.mark.parametrize("text", ["80  GB", "80 GB ", " 80 GB", "80\tGB", "80 GB\n"])
def test_data_has_exactly_one_space(text: str) -> None:
    with pytest.raises(InputError):
        parse(text, "byte", "memory")


def test_zero_is_refused_on_request() -> None:
    assert parse("0 GB/s", "byte/second", "x") == 0
    with pytest.raises(InputError, match="zero"):
        parse("0 GB/s", "byte/second", "x", positive=True)
    with pytest.raises(InputError, match="zero"):
        parse_option("0", "1/second", "--rate", positive=True)


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (25e9, "byte/second", "25 GB/s"),
        (31_104, "byte", "31.1 kB"),
        (0.00139, "second", "1.39 ms"),
        (999.96, "byte", "1 kB"),
        (999.4, "byte", "999 B"),
        (0, "second", "0 s"),
        (0, "byte", "0 B"),
        (-0.0123, "second", "-12.3 ms"),
        (12_345, "second", "12345 s"),
        (5e-13, "second", "0.0005 ns"),
        (5e-14, "second", "5e-14 s"),
        (-7.341e-31, "second", "-7.34e-31 s"),
        (2e-9, "byte", "2e-09 B"),
        (312e12, "flop/second", "312 TFLOP/s"),
        (0.05, "1/second", "0.05 /s"),
        (1396, "token", "1396 tokens"),
        (0.8694, "1", "0.869"),
        (700, "watt", "700 W"),
        (float("inf"), "second", "inf s"),
    ],
)
def test_printed(value: float, dimension: Dimension, text: str) -> None:
    assert format_si(value, dimension) == text


def test_printed_in_binary_on_request() -> None:
    assert format_si(65_536, "byte", binary=True) == "64 KiB"
    assert format_si(65_536, "byte") == "65.5 kB"
    assert format_si(80 * 1024**3, "byte", binary=True) == "80 GiB"
    assert format_si(1023, "byte", binary=True) == "1023 B"
    assert format_si(1024**2 - 1, "byte", binary=True) == "1 MiB"
    assert format_si(1024**3, "byte/second", binary=True) == "1 GiB/s"
    with pytest.raises(ValueError, match="bytes"):
        format_si(1.0, "second", binary=True)


@given(
    value=st.floats(min_value=1e-9, max_value=1e18),
    dimension=st.sampled_from(["byte", "byte/second", "flop/second", "second", "1/second", "watt"]),
)
def test_printed_text_reads_back(value: float, dimension: Dimension) -> None:
    assert parse(format_si(value, dimension, 12), dimension, "x") == pytest.approx(value, rel=1e-11)
