"""The page of ``costmodel step``."""

from __future__ import annotations

from collections.abc import Mapping

from ..memory.parallelism import Parallelism
from ..questions.step import StepAnswer
from .page import Block, Heading, Page, banded, facts, table

TIMES = {
    "bound_s": "bound",
    "mfu": "MFU",
    "mbu": "MBU",
    "flop": "FLOPs a GPU",
    "bytes": "HBM bytes a GPU",
}
MIXED = {"decode_alone_s": "the same decodes alone", "stall_s": "what the chunk adds"}
OPERATORS = {"name": "operator", "count": "runs", "time_s": "time", "bound_s": "bound", "limit": "limited by"}
MORE = {"flop": "FLOPs", "bytes": "bytes", "intensity": "flop/byte", "kind": "efficiency"}
CHUNKED = {
    "chunk": "chunk",
    "chunks": "chunks",
    "time_s": "time",
    "ratio": "x unchunked",
    "reread_bytes": "KV read again",
    "tile_fill": "tile fill",
    "sm_fill": "SM fill",
}
FITS = {
    "kind": "efficiency",
    "basis": "basis",
    "held_out_mape": "held-out error",
    "error": "error counted",
    "form": "form",
    "stack": "stack",
    "borrowed": "borrowed from",
}


#: Kinds that are named as making a band.
_MOST = 4


def page(answer: StepAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds work and efficiency of each operator."""
    layout = Parallelism(tp=answer.tp, ep=answer.ep).label()
    label = f"{answer.hardware} {layout}, {answer.dtype} weights, {answer.kv_dtype} KV"
    blocks: list[Block] = [
        f"{banded('time_s', answer.time_s, answer.low_s, answer.high_s)}, a band for four truths in five",
        _made_of(answer.band),
        facts(answer, TIMES | (MIXED if answer.phase == "mixed" else {})),
        table(answer.operators, OPERATORS | (MORE if detail else {})),
    ]
    if answer.chunked:
        blocks += [Heading("The prompt in chunks, alone"), table(answer.chunked, CHUNKED)]
    if detail:
        blocks += [Heading("Efficiencies"), table(answer.efficiencies, FITS)]
    return Page(f"{_what(answer)} of {answer.model} on {label}", tuple(blocks), answer.about)


def _made_of(band: Mapping[str, float]) -> str:
    """Say what makes the band: by how much each kind of operator may move the time, the largest first."""
    largest = sorted(band.items(), key=lambda item: -item[1])[:_MOST]
    told = (
        f"{name.replace('_', ' ')} {share:.0%}".replace("%", " %")
        for name, share in largest
        if share >= 0.005
    )
    return f"by {', '.join(told) or 'nothing that was measured'}"


def _what(answer: StepAnswer) -> str:
    decodes = f"{answer.batch:,} decodes of {answer.context:,} tokens"
    prompt = f"{answer.tokens:,} prompt tokens over {answer.cached:,} cached"
    return {
        "prefill": f"Prefill step, {prompt},",
        "decode": f"Decode step, {decodes},",
        "mixed": f"Mixed step, {prompt} with {decodes},",
    }[answer.phase]
