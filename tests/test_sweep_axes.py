"""Lists and ranges of a sweep's options, with the units of the commands."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.sweep.axes import DIGITS, MOST_VALUES, Axis, AxisKind, read_axis
from costmodel.sweep.kinds import DTYPE, HARDWARE, KV_DTYPE, MODEL
from costmodel.sweep.product import Grid
from costmodel.sweep.recommendations import QUESTION

BATCH = AxisKind("--batch", "batch", "", "count", 1, 10**7)
TOKENS = AxisKind("--context", "context", "", "token", 1)
RATE = AxisKind("--rate", "rate_per_s", "", "1/second", 1e-12, 1e9)
TIME = AxisKind("--control", "control_s", "", "second", 0, 1e6)
NAME = AxisKind("--link", "link", "")
TOPOLOGY, WORKLOAD = (
    next(kind for kind in (*QUESTION.outer, *QUESTION.inner) if kind.key == key)
    for key in ("topology", "workload")
)


def values(kind: AxisKind, text: object) -> list[Any]:
    return list(read_axis(kind, text).values)


@pytest.mark.parametrize(
    "kind, text, expected",
    (
        (BATCH, "7", [7]),
        (BATCH, "1,2,4", [1, 2, 4]),
        (BATCH, "4,1", [4, 1]),
        (BATCH, "1:4", [1, 2, 3, 4]),
        (BATCH, "1:10:4", [1, 5, 9]),
        (BATCH, "2:10:4", [2, 6, 10]),
        (BATCH, "1:256*2", [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        (BATCH, "1:255*2", [1, 2, 4, 8, 16, 32, 64, 128]),
        (BATCH, "3:3", [3]),
        # 1.5, 2.25, 3.375, 5.06 and 7.59 round to 2, 2, 3, 5 and 8; each once.
        (BATCH, "1:8*1.5", [1, 2, 3, 5, 8]),
        (BATCH, "1,10:30:10,64:256*2", [1, 10, 20, 30, 64, 128, 256]),
        (TOKENS, "1024:4096:1024", [1024, 2048, 3072, 4096]),
        (TOKENS, "100 tokens, 200", [100, 200]),
        (RATE, "1:3:0.5", [1.0, 1.5, 2.0, 2.5, 3.0]),
        (RATE, "0.1:0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        (RATE, "2 req/s,0.5/s", [2.0, 0.5]),
        (RATE, "1:100*10", [1.0, 10.0, 100.0]),
        (TIME, "0,100ms:300ms:100ms", [0.0, 0.1, 0.2, 0.3]),
        (TIME, "1ms:8ms*2", [0.001, 0.002, 0.004, 0.008]),
        (NAME, "ib-hdr, nvlink4", ["ib-hdr", "nvlink4"]),
        (NAME, "a:b*c", ["a:b*c"]),
        (DTYPE, "bfloat16,fp8", ["bf16", "fp8"]),
    ),
)
def test_what_a_text_means(kind: AxisKind, text: str, expected: list[Any]) -> None:
    assert values(kind, text) == expected


@pytest.mark.parametrize(
    "kind, text, said",
    (
        (BATCH, "9:1", "'9:1' is an empty range: it ends before it begins"),
        (BATCH, "1:9:0", "a step of zero never arrives"),
        (BATCH, "1:9:-1", "'-1' is no whole number"),
        (BATCH, "1:9*1", "a factor must be more than 1"),
        (BATCH, "1:9*0.5", "a factor must be more than 1"),
        (BATCH, "1:", "'' is no whole number"),
        (BATCH, "1:9:", "the step is empty"),
        (BATCH, "1,,2", "has an empty part"),
        (BATCH, "", "has an empty part"),
        (BATCH, "0:4", "0 does not lie in 1 .. 10,000,000"),
        (BATCH, "1,2,1", "1 stands twice"),
        (BATCH, "1,1:3", "1 stands twice"),
        (BATCH, "1.5", "'1.5' is no whole number"),
        (TOKENS, "1k:32k:1k", "k is ambiguous; write 1000 or 1024"),
        (TOKENS, "1:5:0.5", "tokens are whole numbers"),
        (RATE, "1:10", "write lo:hi:step or lo:hi*factor"),
        (RATE, "0:10*2", "0 does not lie in"),
        (RATE, "1:2:1e-9", "1,000,000,001 values; at most 100,000"),
        (RATE, "5 GB", "GB measures an amount of bytes"),
        (TIME, "0:10*2", "a range by factors begins above zero"),
        (TIME, "1:x:1", "'x' does not start with a number"),
        (NAME, "a,,b", "has an empty part"),
        (NAME, "a,a", "a stands twice"),
        (NAME, "./a.toml,a.toml", "./a.toml and a.toml are the same"),
        (KV_DTYPE, "fp8_e4m3,fp8", "fp8_e4m3 and fp8 are the same"),
        (BATCH, "1:10:1:1", "'1:10:1:1': a range is lo:hi, lo:hi:step or lo:hi*factor"),
        (BATCH, "1:10:2*2", "'1:10:2*2': a range is lo:hi, lo:hi:step or lo:hi*factor"),
        (BATCH, "1*2", "'1*2': a range is lo:hi"),
        (RATE, "1:2*2*2", "'1:2*2*2': a range is lo:hi:step or lo:hi*factor"),
        (TOKENS, "1:10:1:1", "'1:10:1:1': a range is"),
    ),
)
def test_what_is_wrong_is_told_by_option(kind: AxisKind, text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read_axis(kind, text)
    assert all(problem.startswith(kind.option) for problem in raised.value.problems)
    assert said in str(raised.value)


def test_every_wrong_part_is_told() -> None:
    with pytest.raises(InputError) as raised:
        read_axis(BATCH, "0,5:1,x")
    assert len(raised.value.problems) == 3


def test_a_name_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown dtype 'fp9'; did you mean 'fp8'\?"):
        read_axis(DTYPE, "bf16,fp9")
    assert read_axis(KV_DTYPE, ["float16", "fp8_ds_mla"]).values == ("fp16", "fp8_ds_mla")
    with pytest.raises(InputError, match="h100-sxm") as raised:
        read_axis(HARDWARE, "h100-sx,a100-sxm-80gb,nothing-like-it")
    assert len(raised.value.problems) == 2


@pytest.mark.parametrize(
    "kind, given, expected",
    (
        (BATCH, 3, [3]),
        (BATCH, range(1, 10, 3), [1, 4, 7]),
        (BATCH, [2.0, 5], [2, 5]),
        (RATE, (1, 0.25), [1.0, 0.25]),
        (NAME, ["ib-hdr"], ["ib-hdr"]),
    ),
)
def test_the_library_takes_values(kind: AxisKind, given: object, expected: list[Any]) -> None:
    assert values(kind, given) == expected


def test_the_library_takes_arrays() -> None:
    import numpy as np

    assert values(BATCH, np.arange(1, 4)) == [1, 2, 3]
    assert values(RATE, np.linspace(1, 2, 3)) == [1.0, 1.5, 2.0]


@pytest.mark.parametrize(
    "kind, given, said",
    (
        (BATCH, [], "no values"),
        (BATCH, range(0), "no values"),
        (BATCH, range(5), "0 does not lie in"),
        (BATCH, [1.5], "no whole number"),
        (BATCH, [True], "no number"),
        (RATE, [math.nan], "does not lie in"),
        (RATE, range(1, 5), "says nothing here"),
        (NAME, [5], "no name"),
        (NAME, range(3), "says nothing here"),
        (BATCH, [math.nan], "nan does not lie in"),
        (BATCH, [math.inf], "inf does not lie in"),
        (RATE, -math.inf, "-inf does not lie in"),
        (BATCH, [10**5000], "a number this large does not lie in"),
        (BATCH, range(10**400, 10**400 + 1), "does not lie in"),
        (BATCH, b"1,2", "a value, a list or a text, not a value of type bytes"),
        (BATCH, memoryview(b"1,2"), "type memoryview"),
        (BATCH, {1: 2}, "type dict"),
        (BATCH, {1, 2}, "type set"),
        (BATCH, [[1, 2], [3, 4]], "type list is no number"),
        (BATCH, ["1"], "'1' is no number"),
        (BATCH, [None], "None is no number"),
        (NAME, [None], "type NoneType is no name"),
        (BATCH, itertools.count(1), "at most 100,000"),
        (BATCH, range(1, 10**7 + 2), "10000001|1e\\+07 does not lie in"),
        (RATE, [float(n) for n in range(1, MOST_VALUES + 2)], "at most 100,000"),
    ),
)
def test_the_library_checks_values(kind: AxisKind, given: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_axis(kind, given)


def test_arrays_without_one_dimension_are_values_or_told() -> None:
    import numpy as np

    assert values(BATCH, np.array(5)) == values(BATCH, np.int64(5)) == [5]
    for wrong, said in (
        (np.ones((2, 2)), "type list is no number"),
        (np.array([1.0, np.nan]), "nan does not lie in"),
        (np.float64("inf"), "inf does not lie in"),
        ([np.ones(2)], "type list is no number"),
        (np.array([True]), "True is no number"),
    ):
        with pytest.raises(InputError, match=said):
            read_axis(BATCH, wrong)


def test_paths_are_names_of_files() -> None:
    packaged = Path(__file__).parent.parent / "models" / "meta-llama--Llama-3.1-8B.json"
    assert read_axis(MODEL, packaged).values == (str(packaged),)
    assert read_axis(NAME, [Path("own.toml"), Path("own")]).values == ("own.toml", "./own")


def test_other_names_of_the_same_are_told_with_both_texts() -> None:
    for kind, one, other in (
        (MODEL, "Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        (MODEL, "llama-3.1-8b", "Llama-3.1-8B"),
        (TOPOLOGY, "1p1d", "1P1D"),
        (TOPOLOGY, "01P1D", "1P1D"),
        (WORKLOAD, "lpld", "LPLD"),
    ):
        with pytest.raises(InputError, match=f"{one} and {other} are the same"):
            read_axis(kind, f"{one},{other}")
        assert read_axis(kind, one).values == (one,)
    assert values(TOPOLOGY, "1P1D,1P2D,2P1D") == ["1P1D", "1P2D", "2P1D"]


def test_an_object_that_is_no_name_is_told_in_a_line() -> None:
    for axis in (read_model("Llama-3.1-8B"), [read_model("Llama-3.1-8B")]):
        with pytest.raises(InputError, match="MODEL: a value of type Model is no name; pass text") as raised:
            read_axis(MODEL, axis)
        assert len(str(raised.value)) < 100


def test_a_problem_is_told_once() -> None:
    with pytest.raises(InputError) as raised:
        read_axis(TOKENS, ",")
    assert raised.value.problems == ("--context: ',' has an empty part",)


def test_a_long_range_of_whole_numbers_takes_no_memory() -> None:
    axis = read_axis(TOKENS, "1:1000000000")
    assert isinstance(axis.values, range) and len(axis) == 10**9


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6), st.integers(0, 10**4), st.integers(1, 10**3))
def test_a_range_of_whole_numbers_is_that_of_steps(low: int, more: int, step: int) -> None:
    expected = [low]
    while expected[-1] + step <= low + more:
        expected.append(expected[-1] + step)
    assert values(TOKENS, f"{low}:{low + more}:{step}") == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 500), st.integers(0, 300), st.integers(1, 50))
def test_a_range_of_tenths_has_no_rounding_in_it(low: int, more: int, step: int) -> None:
    """Every value is the decimal number that a hand would write: n / 10, rounded once."""
    found = values(RATE, f"{low / 10}:{(low + more) / 10}:{step / 10}")
    assert found == [n / 10 for n in range(low, low + more + 1, step)]


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 10), st.floats(1.05, 2), st.integers(0, 25))
def test_a_range_by_factors_goes_as_far_as_it_may(low: float, factor: float, count: int) -> None:
    low, factor = float(f"{low:.4g}"), float(f"{factor:.4g}")
    high = low * factor**count * 1.0001
    found = values(RATE, f"{low!r}:{high:.12g}*{factor!r}")
    assert len(found) == count + 1
    for place, value in enumerate(found):
        assert value == pytest.approx(low * factor**place, rel=10.0 ** (1 - DIGITS))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.data(),
)
def test_a_grid_counts_like_nested_loops(outer: list[int], inner: list[int], data: st.DataObject) -> None:
    from itertools import product

    axes = [Axis(f"o{i}", tuple(f"{i}{v}" for v in range(n))) for i, n in enumerate(outer)]
    numbers = [
        Axis(f"i{i}", tuple(float(10 * v) for v in range(n)) if i % 2 else range(3, 3 + n))
        for i, n in enumerate(inner)
    ]
    grid = Grid(tuple(axes), tuple(numbers))
    expected = [
        dict(zip([a.name for a in grid.axes], row)) for row in product(*(a.values for a in grid.axes))
    ]
    assert grid.points == len(expected)
    start = data.draw(st.integers(0, grid.points - 1))
    stop = data.draw(st.integers(start + 1, grid.points))
    found = []
    for piece in grid.pieces(start, stop):
        for place in range(piece.points):
            found.append(piece.outer | {name: column[place] for name, column in piece.inner.items()})
    assert found == expected[start:stop]
