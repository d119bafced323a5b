"""Options of an inference engine: which one, at which version, and the settings that decide what fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from ..errors import InputError
from .options import MOST_REQUESTS, Known, Quantity, Whole, ep_option, option

F = TypeVar("F", bound=Callable[..., Any])

#: Names of the options, as commands receive them.
ENGINE_OPTIONS = (
    "engine", "engine_version", "memory_share", "max_num_seqs", "max_num_batched_tokens", "activation", "non_torch",
)  # fmt: skip


def _engines() -> Iterable[str]:
    from ..memory.engine_file import engine_names

    return engine_names()


def engine_options(more: str = "") -> tuple[Callable[[F], F], ...]:
    """Engine, version, share of memory, batch limits, and overheads to put in place of the measured ones.

    ``more`` says what else --engine takes here.
    """
    share = "Share of memory that the engine plans with; default: its own."
    byte = Quantity("byte", positive=False)
    return (
        option(
            "--engine", type=Known("vllm|sglang|trtllm|FILE", _engines), default="vllm",
            help=f"Engine whose rules and overheads size the KV pool (costmodel show engines){more}.",
        ),
        option("--engine-version", help="Its version; default: the one whose overheads were measured."),
        option(
            "--gpu-memory-utilization", "--mem-fraction-static", "--free-gpu-memory-fraction",
            "--memory-utilization", "memory_share", type=Quantity("1"), help=share,
        ),
        option("--max-num-seqs", type=Whole(MOST_REQUESTS), help="Most sequences of a step."),
        option("--max-num-batched-tokens", type=Whole(10**8), help="Most tokens of a step."),
        option("--activation", type=byte, help="Peak activation, such as 1.9GiB, in place of the modelled one."),
        option("--non-torch", type=byte, help="Memory outside torch, such as 0.25GiB, in place of the measured one."),
    )  # fmt: skip


def take_engine(options: dict[str, Any], **more: Any) -> Any:
    """Remove the engine's options and return its settings. Raises InputError for a share above 1."""
    from ..memory.settings import EngineSettings

    share = options.pop("memory_share")
    if share is not None and share > 1:
        raise InputError(f"--gpu-memory-utilization must lie in (0, 1], not {share:g}")
    return EngineSettings(
        engine=options.pop("engine"),
        version=options.pop("engine_version"),
        memory_share=share,
        max_num_seqs=options.pop("max_num_seqs"),
        max_num_batched_tokens=options.pop("max_num_batched_tokens"),
        activation_bytes=options.pop("activation"),
        non_torch_bytes=options.pop("non_torch"),
        **more,
    )


def layers_of_stages(text: str | None) -> tuple[int, ...] | None:
    """Return the layers of each stage from "16,32". Raises InputError for anything else."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        raise InputError(f"--pp-layers {text!r}: expected whole numbers such as 16,32, one a stage")
    return tuple(int(part) for part in parts)


def layout_options() -> tuple[Callable[[F], F], ...]:
    """Pipeline, expert and attention-data parallelism beside --tp."""
    most = Whole(4096)
    return (
        option("--pp", type=most, help="Pipeline stages."),
        option("--pp-layers", help="Layers of each stage, such as 16,32; default: as vLLM splits them."),
        ep_option(None, "GPUs of a stage that share out whole experts."),
        option("--dp-attention", type=most, help="Groups into which --tp splits for attention."),
    )


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Apply decorators in the order in which their options are to be listed."""

    def wrap(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return wrap


MAX_MODEL_LEN = click.option(
    "--max-model-len",
    type=Quantity("token"),
    help="Length the engine counts sequences by; default: --tokens.",
)
