"""Functions of numbers over arrays: the values of calling them point by point, whatever way each point goes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from costmodel import ops
from costmodel.repeated import Repeated, repeated
from costmodel.serving.mixing import chunk_loads, decode_loads, mixing_loads
from costmodel.serving.operators import load_time
from costmodel.serving.scenario import Scenario
from costmodel.serving.work import Chunk, head_loads, token_loads
from costmodel.specialise import MOST_TRACES
from costmodel.specialise_arrays import BLOCK, ArraySpecialised


def one_by_one(function: Callable[..., Any], *arguments: Any) -> list[float]:
    return [float(function(*map(float, point))) for point in zip(*arguments)]


def test_arithmetic_and_functions_are_those_of_numbers() -> None:
    def function(x: Any, y: Any) -> Any:
        whole, rest = divmod(x, y)
        return (
            ops.exp(-rest) + ops.sqrt(ops.maximum(x, y)) * ops.ceil(x / y) - ops.log(x) ** 2 / whole + x // 2
        )

    x, y = np.linspace(3.5, 90, 50), np.linspace(1, 3, 50)
    assert ArraySpecialised(function)(x, y) == pytest.approx(one_by_one(function, x, y), rel=1e-14)
    # 6 and 2 by hand: exp(0) + sqrt(6) 3 - log(6)^2 / 3 + 3
    by_hand = 1 + 3 * math.sqrt(6) - math.log(6) ** 2 / 3 + 3
    assert ArraySpecialised(function)([6], [2])[0] == pytest.approx(by_hand, rel=1e-14)


def test_points_that_branch_apart_are_traced_apart() -> None:
    def function(x: Any) -> Any:
        if x < 0:
            return -x
        return x * x if x > 3 and x != 7 else 10 * x

    fast = ArraySpecialised(function)
    assert fast([-2, 4, 7, 3, 0, -1]).tolist() == [2, 16, 70, 30, 0, 1]
    assert len(fast.traces) == 4  # below 0; up to 3; above it; 7
    assert fast([5, -5]).tolist() == [25, 5] and len(fast.traces) == 4


def test_whether_a_number_is_zero_is_a_branch() -> None:
    fast = ArraySpecialised(lambda x: 1 / x if x else 0.0)
    assert fast([0, 2, 0, 4]).tolist() == [0, 0.5, 0, 0.25]


def test_arguments_are_broadcast_and_keep_their_shape() -> None:
    fast = ArraySpecialised(lambda x, y: x + 10 * y)
    assert fast([[1], [2]], [3, 4]).tolist() == [[31, 41], [32, 42]]
    assert fast(1, 2).shape == () and fast(np.zeros(0), 1).shape == (0,)
    assert fast([1, 2], 0).dtype == np.float64


def test_a_function_may_leave_its_arguments_alone() -> None:
    assert ArraySpecialised(lambda x: 7)([1, 2]).tolist() == [7, 7]
    assert ArraySpecialised(lambda x: x)([1, 2]).tolist() == [1, 2]


def test_more_ways_than_traces_are_followed_one_by_one() -> None:
    def function(x: Any) -> Any:
        steps = 0
        while steps < x:
            steps += 1
        return steps

    points = np.arange(3.0 * MOST_TRACES)
    fast = ArraySpecialised(function)
    assert fast(points).tolist() == points.tolist() and len(fast.traces) == MOST_TRACES


def test_blocks_join_without_a_seam() -> None:
    points = np.arange(2.0 * BLOCK + 5)
    fast = ArraySpecialised(lambda x: x + 1 if x % 3 else -x)
    assert fast(points).tolist() == [x + 1 if x % 3 else -x for x in points.tolist()]


def test_lines_that_nothing_needs_are_left_out() -> None:
    def function(x: Any) -> Any:
        ops.exp(x)  # overflows beyond 709
        return x + 1

    assert ArraySpecialised(function)([0.0, 1000.0]).tolist() == [1, 1001]


def test_a_point_may_miss_its_own_trace_by_a_last_bit() -> None:
    draw = random.Random(1)
    tried = [draw.uniform(0.1, 50) for _ in range(100_000)]
    squares = zip(tried, np.array(tried) ** 2)  # a product, where Python asks the C library's power
    point = next((x for x, square in squares if square < x**2), 0.0)
    if not point:
        pytest.skip("numpy's squares are Python's here")
    level = point**2
    for points, found in (([point, point - 0.1, point + 1], [1, 2, 1]), ([point], [1])):
        assert ArraySpecialised(lambda x: 1.0 if x**2 >= level else 2.0)(points).tolist() == found


@pytest.mark.parametrize(
    ("model", "hardware"),
    [
        ("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"),  # latents, experts
        ("Llama-3.1-8B", "h100-sxm"),  # chunks and decodes in one kernel
        ("gpt-oss-20b", "h100-sxm"),  # windows
        ("Qwen3-Next-80B-A3B-Instruct", "b200-sxm"),  # states
    ],
)
def test_step_times_are_those_of_the_book(model: str, hardware: str) -> None:
    kind = Scenario(model, hardware=hardware).deployment().decode

    def time(loads: Any) -> Any:
        return sum(load.runs * load_time(kind, load) for load in loads)

    draw = random.Random(model)
    count = 40
    tokens = [float(draw.choice((1, 16, 17, round(2 ** draw.uniform(0, 15))))) for _ in range(count)]
    prefix = [float(draw.choice((0, round(2 ** draw.uniform(0, 16))))) for _ in range(count)]
    batch = [2 ** draw.uniform(0, 9) for _ in range(count)]
    context = [b * 2 ** draw.uniform(0, 15) for b in batch]
    for function, arguments in (
        (lambda n: time(token_loads(kind, n, 0)), (tokens,)),
        (lambda n: time(head_loads(kind, n)), (tokens,)),
        (lambda n, p: time(chunk_loads(kind, Chunk(n, p))), (tokens, prefix)),
        (lambda b, c: time(decode_loads(kind, b, c)), (batch, context)),
        (lambda n, p, b, c: time(mixing_loads(kind, (Chunk(n, p),), b, c)), (tokens, prefix, batch, context)),
    ):
        found = ArraySpecialised(function)(*arguments)
        assert found == pytest.approx(one_by_one(function, *arguments), rel=1e-13)


def test_an_argument_of_one_value_is_worked_on_once() -> None:
    """The same values, bit by bit, whether an argument is one number or as many equal ones; guards on it, too."""

    def function(x: Any, y: Any) -> Any:
        return x**2 * y if x > 2 else ops.minimum(x, y) / 3

    y = np.linspace(0.1, 9.0, 10_001)
    for x in (1.7, 2.0, 3.3):
        one = ArraySpecialised(function)(x, y)
        assert one.tolist() == ArraySpecialised(function)(np.full(len(y), x), y).tolist()
        assert one[5000] == pytest.approx(function(x, float(y[5000])), rel=1e-15)
    specialised = ArraySpecialised(function)
    assert specialised(3.3, 2.0).shape == ()
    assert specialised([3.3], y[:3]).shape == (3,)
    assert specialised(np.ones((2, 1)), y[:3]).shape == (2, 3)
    assert specialised(1.0, y[:0]).tolist() == []


def cube(x: Any, y: Any) -> Any:
    """Three ways; parts that rest on one number, and on both."""
    part = ops.ceil(x / 7) ** 3 + 1 / x if x > 2 else -x
    return part * y + ops.sqrt(y) if y != 4 else part + x * y


@pytest.mark.parametrize("distinct", [(3, 5), (40, 2000), (2000, 3), (1, 9)])
def test_values_that_stand_at_many_points_are_worked_on_once_each(distinct: tuple[int, int]) -> None:
    draw = np.random.default_rng(1)
    x, y = (draw.integers(1, 1 + most, 2 * BLOCK + 77) for most in distinct)
    given = repeated(x), repeated(y)
    assert [isinstance(column, Repeated) for column in given] == [most > 1 for most in distinct]
    plain = ArraySpecialised(cube)(x, y)
    specialised = ArraySpecialised(cube)
    assert specialised(*given).tolist() == plain.tolist() == specialised(*given).tolist()
    some = draw.integers(0, len(x), 50)
    assert plain[some] == pytest.approx(one_by_one(cube, x[some], y[some]), rel=1e-14)


def test_a_column_is_told_by_its_values_where_these_are_few() -> None:
    column = np.array([7, 9, 7, 7, 9, 9, 7, 9])
    few = repeated(column)
    assert isinstance(few, Repeated) and few.values.tolist() == [7, 9]
    assert few.at_points(few.values).tolist() == column.tolist()
    assert (few[1], len(few[2:]), few[[0, 1]].tolist()) == (9, 6, [7, 9])
    for each in (np.arange(9), np.array([1, 1, 1, 1, 10**12]), np.zeros(0, dtype=int)):
        assert repeated(each).tolist() == each.tolist()  # type: ignore[union-attr]
    assert repeated(np.full(5, 3)).tolist() == [3]  # type: ignore[union-attr]


def test_combinations_that_stand_nowhere_are_not_asked_for() -> None:
    """Of 3 x 2 combinations four stand at points; (2, 5) and (3, 4) have no value."""
    places = np.arange(400) % 4
    x, y = np.array([1, 2, 3, 1])[places], np.array([4, 4, 5, 5])[places]

    def function(x: Any, y: Any) -> Any:
        assert x + y != 7
        return 10 * x + y

    assert ArraySpecialised(function)(repeated(x), repeated(y)).tolist() == (10 * x + y).tolist()


def test_the_way_that_most_points_go_comes_first() -> None:
    fast = ArraySpecialised(lambda x: -x if x < 3 else x)
    assert fast(np.arange(100)).tolist() == [0, -1, -2, *range(3, 100)]
    assert fast.traces[0](np.array([50.0]))[1] is None  # holds, after the other was traced first
