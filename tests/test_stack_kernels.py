"""What a stack does to kernels: times under a factor, without launches, and never below what physics allows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from made_stacks import A100, H100, LLAMA, MIXTRAL, V2_LITE, kind_under, stack_of

from costmodel.errors import InputError
from costmodel.inputs.stack import stack_names
from costmodel.operators import work as operators
from costmodel.operators.catalogue import COLLECTIVES, HOST, KINDS, STREAMS, UNMEASURED
from costmodel.serving.instance import InstanceKind, fit_of
from costmodel.serving.operators import load_time
from costmodel.serving.step import analyse_step, step_loads
from costmodel.serving.work import Chunk, Load

#: Chunks (the last of which end), decodes and their tokens.
STEPS: tuple[tuple[tuple[Chunk, ...], int, float], ...] = (
    ((Chunk(1),), 0, 0.0),
    ((Chunk(700),), 0, 0.0),
    ((Chunk(9000), Chunk(64, 5000)), 0, 0.0),
    ((), 1, 17.0),
    ((), 64, 64 * 2500.0),
    ((Chunk(512, 1024), Chunk(300)), 32, 32 * 1000.0),
)
#: Dense over 4 GPUs, experts, latents, windows, states, and weights and caches of 8 bits.
MODELS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("meta-llama/Llama-3.1-70B", 4, {}),
    (MIXTRAL, 2, {}),
    (V2_LITE, 1, {}),
    (V2_LITE, 1, {"kv_dtype": "fp8"}),
    ("mistralai/Mistral-7B-v0.1", 1, {}),
    ("google/gemma-3-1b-it", 1, {}),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 4, {}),
)
#: Kinds whose forms have the traffic of a prompt at the peak of HBM.
OF_PROMPTS = ("attention_prefill", "attention_mixed", "mla_prefill")
NARROW = {A100: "int8", H100: "fp8"}


def settings(gpu: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield from MODELS
    for model in (LLAMA, MIXTRAL):
        yield model, 1, {"dtype": NARROW[gpu]}


@lru_cache(maxsize=2)
def loads_of(gpu: str) -> list[tuple[tuple[str, int, dict[str, Any]], list[Load]]]:
    """All loads of all models, each with what makes its instance kind; those that no step has are made by hand."""
    found = []
    for setting in settings(gpu):
        model, tp, options = setting
        kind = kind_under(None, model, gpu, tp, **options)
        loads = [
            load
            for chunks, batch, context in STEPS
            for load in step_loads(kind, chunks, len(chunks), batch, context)
        ]
        found.append((setting, loads))
    by_hand = [Load("add", "add", 1, operators.streaming(900, 4096, 3, 2))]
    for name in COLLECTIVES:
        by_hand += [Load(name, name, 1, operators.collective(size, 1.5)) for size in (3e3, 4e5, 7e7)]
    found[0][1].extend(by_hand)
    return found


def assert_times(gpu: str, first: Any, second: Any, check: Any) -> None:
    """Check the time of every load under one stack against that under another."""
    seen = set()
    for (model, tp, options), loads in loads_of(gpu):
        one, other = (kind_under(stack, model, gpu, tp, **options) for stack in (first, second))
        for load in loads:
            seen.add(load.kind)
            check(one, load, float(load_time(one, load)), float(load_time(other, load)))
    assert seen == {*KINDS, UNMEASURED}


@pytest.mark.parametrize("factor", [1.0, 1.37, 2.5])
@pytest.mark.parametrize("gpu", [A100, H100])
def test_a_factor_multiplies_the_time_of_every_kernel(gpu: str, factor: float) -> None:
    def check(kind: InstanceKind, load: Load, before: float, after: float) -> None:
        if load.kind not in OF_PROMPTS:
            assert after == pytest.approx(factor * before, rel=1e-9), (load.kind, load.name, load.work)

    assert_times(gpu, None, stack_of(kernel_factor=factor), check)


@pytest.mark.parametrize("gpu", [A100, H100])
def test_a_factor_multiplies_the_time_of_attention_of_prompts(gpu: str) -> None:
    def check(kind: InstanceKind, load: Load, before: float, after: float) -> None:
        if load.kind in OF_PROMPTS:
            assert after == pytest.approx(1.37 * before, rel=1e-9), (load.kind, load.name, load.work)

    assert_times(gpu, None, stack_of(kernel_factor=1.37), check)


@pytest.mark.parametrize("gpu", [A100, H100])
def test_a_narrow_factor_is_for_products_of_8_bits_alone(gpu: str) -> None:
    def check(kind: InstanceKind, load: Load, before: float, after: float) -> None:
        expected = 1.2 * before if load.kind in ("gemm_fp8", "moe_fp8") else before
        assert after == pytest.approx(expected, rel=1e-9), load.kind

    assert_times(gpu, None, stack_of(narrow_factor=1.2), check)


@pytest.mark.parametrize("gpu", [A100, H100])
def test_without_launches_the_fixed_latencies_are_gone_and_nothing_else(gpu: str) -> None:
    def check(kind: InstanceKind, load: Load, before: float, after: float) -> None:
        inherits = load.kind in (UNMEASURED, "attention_mixed")
        own = fit_of(kind, "attention_prefill" if inherits else load.kind).parameters
        fixed = own.get("latency", 0.0)
        if load.kind in STREAMS:  # start and streaming overlap, as legs of a right angle
            assert after**2 == pytest.approx(before**2 - fixed**2, rel=1e-6, abs=1e-18)
            return
        if load.kind == "attention_decode":  # besides, passes that repack queries and that combine splits
            assert fixed - 1e-15 <= before - after <= fixed + 2 * own["pass_latency"] + 1e-15
            return
        if load.kind == "attention_mixed":  # at least the time of each part alone, which may have had passes
            assert 0 <= before - after <= max(fixed, _passes(kind)) + 1e-15
            return
        steps = {"custom_all_reduce": (1, 2)}.get(load.kind, (kind.tp - 1,))
        gone = [fixed + n * own.get("step_latency", 0.0) for n in steps]
        assert any(before - after == pytest.approx(each, rel=1e-6, abs=1e-15) for each in gone), load.kind

    assert_times(gpu, None, stack_of(launch_share=0.0), check)


def _passes(kind: InstanceKind) -> float:
    own = fit_of(kind, "attention_decode").parameters
    return own["latency"] + 2 * own["pass_latency"]


@pytest.mark.parametrize("gpu", [A100, H100])
def test_launches_shrink_by_their_share_and_grow_by_the_factor(gpu: str) -> None:
    """Latencies are a straight line in their share, but for streams; the factor multiplies what is left."""
    whole, none = (stack_of(launch_share=share) for share in (1.0, 0.0))

    def check(kind: InstanceKind, load: Load, half: float, doubled: float) -> None:
        if load.kind not in OF_PROMPTS:
            assert doubled == pytest.approx(2 * half, rel=1e-9), load.kind

    halved = stack_of(launch_share=0.5)
    assert_times(gpu, halved, stack_of(launch_share=0.5, kernel_factor=2.0), check)
    for (model, tp, options), loads in loads_of(gpu):
        one, other, middle = (kind_under(s, model, gpu, tp, **options) for s in (whole, none, halved))
        for load in loads:
            if load.kind in ("gemm", "gemm_fp8", "moe", "moe_fp8", "attention_prefill", "all_reduce"):
                ends = float(load_time(one, load)), float(load_time(other, load))
                assert float(load_time(middle, load)) == pytest.approx(sum(ends) / 2, rel=1e-9)


def test_a_factor_that_runs_a_kernel_faster_than_its_peak_is_refused() -> None:
    """Half the time of a product that reaches more than half of a peak."""
    fits = kind_under(None).efficiency.operators
    most = max(fits["gemm"].parameters[name] for name in ("compute_share", "bandwidth_share"))
    assert 0.5 < most <= 1
    with pytest.raises(InputError, match=r"stack made: a factor of 0\.5 would run \w+ faster than its peak"):
        kind_under(stack_of(kernel_factor=0.5))
    with pytest.raises(InputError, match=r"moe_fp8|gemm_fp8"):
        kind_under(stack_of(narrow_factor=0.3), gpu=H100)
    # what the message asks for is enough
    shares = [
        value
        for fit in fits.values()
        for name, value in fit.parameters.items()
        if name in ("compute_share", "bandwidth_share", "quantise_share")
    ]
    kind_under(stack_of(kernel_factor=max(shares)))
    with pytest.raises(InputError, match="expected at least"):
        kind_under(stack_of(kernel_factor=max(shares) * 0.999))


@pytest.mark.parametrize("name", stack_names())
def test_no_step_of_a_packaged_stack_is_faster_than_physics_allows(name: str) -> None:
    for gpu in (A100, H100):
        for model, tp, options in settings(gpu):
            try:
                kind = kind_under(name, model, gpu, tp, **options)
            except InputError as error:
                assert "was measured on" in str(error)  # no fit for this GPU
                continue
            for chunks, batch, context in STEPS:
                step = analyse_step(kind, chunks, batch=batch, context=context)
                assert step.time_s >= step.bound_s > 0
                assert step.low_s >= step.bound_s and step.low_s <= step.time_s <= step.high_s
                for operator in step.operators:
                    assert operator.time_s >= operator.bound_s * (1 - 1e-12), operator.name
                    assert operator.kind not in HOST or operator.bytes == operator.flop == 0
