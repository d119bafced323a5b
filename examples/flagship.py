"""DeepSeek-V2-Lite on one A100, and published prefill times read backwards: python examples/flagship.py

Steps of operators alone and under the stack of current vLLM (fitted on other GPUs and models), each with its band; what
the time is made of; and which prompts take as long as the P95 prefill times of a published study.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tabulate import tabulate

from costmodel import Chunk, analyse_step, load_gpu, make_instance, read_model
from costmodel.serving.instance import InstanceKind
from costmodel.serving.step import Step

PROMPTS = (512, 2048, 8192, 32768)
DECODES = tuple((batch, context) for context in (2048, 8192) for batch in (1, 32, 128))
#: P95 prefill times of Kairos, arXiv 2607.02043: DeepSeek-V2-Lite on A100 nodes, vLLM.
PUBLISHED = (0.191, 1.07, 1.34)
LONGEST = 262_144
INTRO = """\
# DeepSeek-V2-Lite on one A100

bf16, A100-SXM-80GB, TP1. Best estimate and band (four truths in five, as far as they could be tried: \
[accuracy](../docs/validation/accuracy.md)), in milliseconds. *Operators alone* is the default of `costmodel step`; \
*vllm-2026* is `--stack vllm-2026`, fitted to other GPUs and another model, and counted so. No engine was measured on \
this model and GPU: the figures are predictions.

Prefill attention rests on a table of this very GPU and head count (TensorRT-LLM 1.0, MLA prefill, 192 + 128 a head); \
the experts on the nearest shapes of the A100's table (vLLM 0.14: none has hidden 2048 with 64 experts of 1408). \
Decode attention over latents was measured on an H100 alone and is borrowed. Made by `python examples/flagship.py`.
"""


def kinds() -> dict[str, InstanceKind]:
    """The instance, with and without a stack."""
    model, gpu = read_model("deepseek-ai/DeepSeek-V2-Lite"), load_gpu("a100-sxm-80gb")
    stacks = {"operators alone": None, "vllm-2026": "vllm-2026"}
    return {name: make_instance(model, gpu, stack=stack) for name, stack in stacks.items()}


def milliseconds(step: Step) -> str:
    """A time with its band."""
    return " ".join((digits(step.time_s), f"({digits(step.low_s)}-{digits(step.high_s)})"))


def digits(seconds: float) -> str:
    """Milliseconds to three digits."""
    found = 1e3 * seconds
    return f"{found:,.{max(0, 2 - math.floor(math.log10(found)))}f}"


def share(step: Step, kinds: Sequence[str]) -> str:
    """Part of a step that these operator kinds take."""
    part = sum(op.time_s for op in step.operators if op.kind.startswith(tuple(kinds)))
    return f"{part / step.time_s:.0%}"


def prefill(kind: InstanceKind, tokens: int) -> Step:
    """One prompt alone."""
    return analyse_step(kind, [Chunk(tokens)])


def decode(kind: InstanceKind, batch: int, context: int) -> Step:
    """One decode step."""
    return analyse_step(kind, batch=batch, context=batch * context)


def row(label: str, steps: Sequence[Step]) -> tuple[str, ...]:
    """A line of the table of steps."""
    first = steps[0]
    parts = share(first, ["moe"]), share(first, ["mla", "latent"]), share(first, ["gemm"])
    return (label, *map(milliseconds, steps), digits(first.bound_s), *parts)


def tokens_at(time: Callable[[int], float], seconds: float) -> int:
    """The longest prompt whose prefill takes at most so long."""
    low, high = 1, LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if time(middle) <= seconds else (low, middle - 1)
    return low


def inverted(kind: InstanceKind, seconds: float) -> tuple[str, ...]:
    """Prompt length at which a prefill takes so long: best, and at the two edges of the band."""
    edges = [
        tokens_at(lambda n, edge=edge: getattr(prefill(kind, n), edge), seconds)  # type: ignore[misc]
        for edge in ("time_s", "high_s", "low_s")
    ]
    best, short, long = (f"{round(n, -2):,}" for n in edges)
    return f"{1e3 * seconds:,.0f}", best, f"{short}-{long}"


def page() -> str:
    """The page as markdown."""
    made = kinds()
    steps = [
        row(f"prefill {tokens:,}", [prefill(kind, tokens) for kind in made.values()]) for tokens in PROMPTS
    ]
    steps += [
        row(f"decode {batch} x {context:,}", [decode(kind, batch, context) for kind in made.values()])
        for batch, context in DECODES
    ]
    header = ("step", *made, "bound", "experts", "MLA", "other products")
    bare = made["operators alone"]
    back = [inverted(bare, seconds) for seconds in PUBLISHED]
    return "\n".join((
        INTRO,
        tabulate(steps, header, tablefmt="github", disable_numparse=True),
        "\nA share is of the time of operators alone; MLA is attention with what its module takes besides products.\n",
        "## Published prefill times, read backwards\n",
        "Kairos (arXiv 2607.02043) reports P95 prefill times of this model and does not say of which prompts. Alone on "
        "its GPU, such a time is that of:\n",
        tabulate(back, ("P95 prefill, ms", "prompt tokens", "band"), tablefmt="github", disable_numparse=True),
        "\nWhere a step held several prompts, each of them was shorter: these are the most that fit.",
    ))  # fmt: skip


if __name__ == "__main__":
    print(page())
