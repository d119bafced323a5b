"""Step times of evaluators: compiled, and many steps at once, against the plain formulas and loops."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.memory.parallelism import Parallelism
from costmodel.ops import ceil, maximum, minimum, sqrt
from costmodel.serving.bound import step_bound
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import StepTimes
from costmodel.serving.table import StepTable
from costmodel.serving.work import Chunk
from costmodel.specialise import MOST_TRACES, Specialised

#: Grouped heads, latents with experts, windows, a staircase of unsplit caches, recurrent states with experts.
MODELS = [
    ("Llama-3.1-8B", "a100-sxm-80gb", 1),
    ("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", 1),
    ("google/gemma-3-27b-it", "h100-sxm", 2),
    ("Llama-2-7b-hf", "a100-sxm-80gb", 1),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h100-sxm", 4),
]
#: Whole experts on each GPU, halves of experts, and one GPU with fewer than the others.
SHARED_OUT = [
    ("mistralai/Mixtral-8x7B-v0.1", "h100-sxm", Parallelism(8, ep=8)),
    ("deepseek-ai/DeepSeek-V3", "h200-sxm", Parallelism(8, ep=4)),
    ("Qwen/Qwen1.5-MoE-A2.7B", "h100-sxm", Parallelism(8, ep=8)),
]


@pytest.fixture(scope="module", params=[*MODELS, *SHARED_OUT], ids=lambda case: case[0])
def kind(request: pytest.FixtureRequest) -> InstanceKind:
    model, gpu, tp = request.param
    if isinstance(tp, Parallelism):
        return make_instance(read_model(model), load_gpu(gpu), tp)
    return Scenario(model, gpu, tp=tp).deployment().prefill


def test_steps_are_those_of_the_formulas(kind: InstanceKind) -> None:
    random, table, plain = Random(5), StepTable(kind), StepTimes(kind)
    for _ in range(150):
        batch = random.choice([1, 2, random.randint(1, 256)])
        context = int(batch * 2 ** random.uniform(0.1, 16))
        tokens, prefix = random.choice([1, 64, random.randint(1, 5000)]), random.choice([0, 1, 129, 7000])
        near = {"rel": 1e-12}
        assert table.decode(batch, context) == pytest.approx(plain.decode(batch, context), **near)
        assert table.prefill(tokens, prefix) == pytest.approx(plain.prefill(tokens, prefix), **near)
        assert table.token_bytes(tokens, 1) == pytest.approx(plain.token_bytes(tokens, 1), **near)
        bound = step_bound(kind, (Chunk(tokens, prefix),), 1, 0, 0)
        assert table.alone(tokens, prefix)[2] == pytest.approx(bound.compute_s, **near)
        chunks = [Chunk(tokens, prefix), Chunk(17, 0), Chunk(1, 50)][: random.randint(1, 3)]
        for mixed in (0, batch):
            held = context if mixed else 0
            expected = plain.step(chunks, 1, mixed, held)
            assert table.step(chunks, 1, mixed, held) == pytest.approx(expected, **near)


def test_many_decode_steps_are_their_sum(kind: InstanceKind) -> None:
    random, table, plain = Random(6), StepTable(kind), StepTimes(kind)
    for _ in range(25):
        batch, steps = random.randint(1, 40), random.randint(1, 300)
        context = batch * random.choice([1, 100, 127, 1000, 4090]) + random.randint(0, batch)
        each = [plain.decode(batch, context + j * batch) for j in range(steps)]
        assert table.run(batch, context, steps) == pytest.approx(math.fsum(each), rel=1e-12)
        ends = [math.fsum(each[: j + 1]) for j in range(steps)]
        wanted = random.uniform(0, ends[-1])
        count, seconds = table.until(batch, context, steps, wanted)
        first = next(j for j, end in enumerate(ends) if end >= wanted)
        assert count == first + 1 and seconds == pytest.approx(ends[first], rel=1e-12)
        assert table.until(batch, context, steps, math.inf) == (steps, pytest.approx(ends[-1], rel=1e-12))


def test_factors_move_the_kinds_they_name(kind: InstanceKind) -> None:
    doubled = StepTable(kind).with_factors(dict.fromkeys(kind.efficiency.operators, 2.0))
    plain = StepTable(kind)
    # What was not measured has no fit of its own, and is not doubled.
    low, high = plain.decode(4, 4000), 2 * plain.decode(4, 4000)
    assert low < doubled.decode(4, 4000) <= high * (1 + 1e-12)
    assert doubled.prefill(700, 0) > 1.5 * plain.prefill(700, 0)


# --- specialised functions ------------------------------------------------------------------------------


def test_a_specialised_function_is_the_function() -> None:
    calls = []

    def function(x: Any, y: Any) -> Any:
        calls.append((x, y))
        if x > 10:
            return -x / 4 + 2**y
        part = maximum(ceil(x / 3), minimum(y, 2.5)) * 7 % 5
        return (sqrt(x * x + 1) + 0 * y - part) // 1 if y == 3 else 1 + part - 0.5

    fast = Specialised(function)
    random = Random(2)
    for _ in range(300):
        x, y = random.choice([1, 2.5, 11, 30]), random.choice([1, 3, 4.5])
        assert fast(x, y) == function(x, y)
    # The function itself ran 300 times here; beside those twice for each of its three ways.
    assert len(calls) == 300 + 6 and len(fast.traces) == 3


def test_a_function_of_many_ways_is_called_as_it_is() -> None:
    def steps(x: Any) -> Any:
        return next(i for i in range(100) if x <= i)

    fast = Specialised(steps)
    assert [fast(x) for x in range(60)] == list(range(60))
    assert len(fast.traces) == MOST_TRACES


def test_infinity_and_constants_survive() -> None:
    fast = Specialised(lambda x: minimum(x, math.inf) + 0.1)
    assert (fast(2), fast(3.5)) == (2.1, 3.6)
