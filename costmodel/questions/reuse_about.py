"""What an answer of ``reuse`` rests on."""

from __future__ import annotations

from collections.abc import Sequence

from ..answer import About
from ..inputs.model import Model
from ..inputs.parameters import count_parameters
from ..serving.band import told_of, used_kinds
from ..serving.handover import HoldsKv
from ..serving.instance import InstanceKind, fits_used
from ..serving.tiers import KvTier, kv_shape
from .inputs import context_warnings, model_source
from .reuse_loads import PrefixRow
from .reuse_options import ReuseOptions
from .tiers import TierOption


def about_reuse(
    end: HoldsKv,
    kind: InstanceKind | None,
    chosen: Sequence[TierOption],
    below: Sequence[KvTier],
    asked: ReuseOptions,
    rows: Sequence[PrefixRow],
    warned: Sequence[str] = (),
) -> About:
    """Return the assumptions, sources and warnings of an answer; what was left out of it."""
    said = ["nobody else reads from a tier meanwhile, and nothing hides a load", *_said(asked, rows)]
    said += [note for option in chosen for note in option.notes()]
    said += [note for tier in below for note in tier.told]
    if kv_shape(end).fixed_bytes and chosen:
        said.append(
            "of layers with windows a tier keeps a sequence's last window, whole (windows=all: every token)"
        )
    if kind is not None:
        said += [f"prompts are prefilled alone, in one step, on {kind.label()}", *kind.notes()]
        said += [told_of(kind)] if kind.stack else []
    left_out = ["writes to tiers, which compete with reads", "queues at a tier that instances share"]
    if kind is not None and kind.stack is None:
        left_out.append("host and scheduler time between steps (--stack)")
    sources = [model_source(end.model), *(line for option in chosen for line in option.sources())]
    warnings = [*(warning for tier in below for warning in tier.warned), *warned]
    if kind is not None:
        found, borrowed = _fits(kind)
        sources, warnings = [*sources, *found], [*warnings, *borrowed]
    if any(row.mooncake_bytes_per_s is not None for row in rows):
        said.append(
            f"Mooncake's rule: peak rate, and b = 22 as for Llama-3-70B; the products of {end.model.name} take "
            f"{linear_work(end.model):.3g}"
        )
        sources.append("rule of Mooncake: FAST'25, equations 1 and 2")
    longest = max((row.prefix_tokens + row.uncached_tokens for row in rows), default=1)
    if asked.turns and asked.turn_tokens and asked.osl:
        longest = max(longest, asked.turns * (asked.turn_tokens + asked.osl))
    warnings += context_warnings(end.model, longest)
    return About(tuple(said), tuple(sources), tuple(left_out), tuple(warnings))


def linear_work(model: Model) -> float:
    """FLOPs of the products of a token and layer over the hidden size squared: b of Mooncake's rule."""
    layers = sum(layer.count for layer in model.layers)
    return 2 * count_parameters(model).active_core / (layers * model.hidden**2)


def _fits(kind: InstanceKind) -> tuple[list[str], list[str]]:
    """Return the sources of a GPU's figures and fits, and a warning for each fit that is borrowed."""
    gpu, used = kind.gpu, fits_used(kind, used_kinds(kind))
    keys = dict.fromkeys((f"peak_{kind.product_dtype}", f"peak_{kind.activation_dtype}", "memory_bandwidth"))
    sources = [f"{gpu.name} {key}, {gpu.values[key].text}: {gpu.values[key].source}" for key in keys]
    sources += [f"{fit.kind}: {fit.source}" for fit in used]
    if kind.stack is not None:
        sources.append(f"stack {kind.stack.stack}: {kind.stack.source}")
    borrowed = [
        f"{fit.kind}: borrowed from {fit.borrowed}, {fit.stack}; counted with an error of {fit.error:.0%}"
        for fit in used
        if fit.borrowed
    ]
    return sources, borrowed


def _said(asked: ReuseOptions, rows: Sequence[PrefixRow]) -> list[str]:
    """What is taken for granted because it was not given, or follows from what was."""
    said = []
    if rows and not asked.prefixes:
        said.append("no --prefix is given: some lengths below the prompt's, or the model's longest")
    if rows and asked.isl is None:
        said.append("one token follows the prefix (--isl says how many)")
    if rows:
        said.append("closed forms take recompute for a parabola")
    if asked.trace is not None or asked.sequences is not None:
        said.append("what is computed is written to every tier, so that a tier has what lies above it, too")
    if asked.trace is not None:
        said += [
            "one cache serves the whole trace; least recently used blocks go first, of one prompt the last ones",
            "a block takes its room whole, however few of its tokens a prompt has",
            "fleet: every request finds the mean of what is found, and reads each part from the first tier that has "
            "it, all parts at the same time, but for those by network ports, one after the other",
        ]
    if asked.turns is not None:
        said.append(
            "turns: nothing is evicted between them, token 1 comes from decode, and windows and states do not count"
        )
    return said
