"""Stacks made of given parameters, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.stack import ANY, Measured, Parameters, Stack, StackFit
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.instance import InstanceKind, make_instance

LLAMA, MIXTRAL, V2_LITE = (
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V2-Lite",
)
A100, H100 = "a100-sxm-80gb", "h100-sxm"


def stack_of(
    gpu: str = ANY,
    *,
    errors: Mapping[str, Measured] | None = None,
    fitted_on: tuple[str, ...] = (),
    elsewhere: bool = False,
    name: str = "made",
    **parameters: Any,
) -> Stack:
    """A stack with these parameters on a GPU, by default on any."""
    fit = StackFit(name, gpu, Parameters(**parameters), errors or {}, fitted_on, "made up", elsewhere)
    return Stack(name, "made", "1", "2026-01-31", "made up", {gpu: fit})


def kind_under(
    stack: Stack | str | None,
    model: str = LLAMA,
    gpu: str = A100,
    tp: int = 1,
    **options: Any,
) -> InstanceKind:
    """An instance kind under a stack."""
    return make_instance(read_model(model), load_gpu(gpu), Parallelism(tp), stack=stack, **options)
