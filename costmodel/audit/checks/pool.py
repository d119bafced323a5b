"""A KV pool in bytes, tokens, blocks and sequences of full length: one story; weights as logs print them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import InputError
from ...memory.kv import kv_bytes
from ...records import Figure
from ...units import format_si
from ..case import Case
from ..finding import HOLDS, INCONSISTENT, Finding, not_computable
from ..runs import Run, named
from ..sizes import Expected, judge
from ..subject import Subject, Unknown
from ..written import SLACK, readings, rounding
from .memory import of_one_gpu, token_bytes
from .slips import narrow_cache

TOKEN, BLOCKS, FULL, WEIGHTS = "bytes_per_token", "kv_blocks", "full_length_sequences", "weight_bytes"
#: Weights as loaded: engines keep buffers, pad and repeat small tensors.
_LOADED = 0.015
#: Bytes that engines load beside weights, whatever the model: rotary tables, buffers.
_BUFFERS = 64 * 2**20


@dataclass(frozen=True)
class Tokens:
    """Tokens that a pool holds, the figures that say so, and how they are counted."""

    count: float
    of: tuple[Figure, ...]
    told: str


def tokens_of_pool(run: Run) -> Tokens | None:
    """Return the tokens of a run's pool: as stated, else blocks x the tokens of a block; None where neither is."""
    tokens, blocks = run.get("kv_cache_tokens"), run.get("kv_cache_blocks")
    if tokens is not None:
        return Tokens(tokens.value, (tokens,), f"{tokens.value:,.0f} tokens") if tokens.value > 0 else None
    size = run.number("block_size", blocks) if blocks else None
    if blocks is None or not size or not blocks.value:
        return None
    return Tokens(blocks.value * size, (blocks,), f"{blocks.value:,.0f} blocks x {size:g} tokens")


def check_bytes_per_token(case: Case) -> Iterator[Finding]:
    """Pool bytes / pool tokens = KV bytes of a token of the model."""
    for run, pool in case.each("kv_pool_bytes"):
        tokens = tokens_of_pool(run)
        if tokens is None:
            continue
        of, what = (pool, *tokens.of), f"{pool.text} / {tokens.told}"
        subject = case.subject(run, pool)
        try:
            wanted = _token(subject)
        except Unknown as why:
            yield not_computable(TOKEN, named(of), what, str(why))
            continue
        open_ = SLACK + rounding(pool) + rounding(tokens.of[0])
        yield from judge(TOKEN, of, what, pool.value / tokens.count, wanted, readings(pool), open_)


def _token(subject: Subject) -> list[Expected]:
    """Bytes of a token in the pool: of the instance, and of one GPU of it where TP is stated."""
    whole = token_bytes(subject)
    made = [Expected(whole, f"{format_si(whole, 'byte', 6)} a token")]
    made += narrow_cache(subject, whole, "a token")
    tp = subject.conditions.get("decode_tp") or subject.conditions.get("tp")
    if isinstance(tp, int | float) and tp > 1 and "kv_bytes_per_token" not in subject.conditions:
        try:
            own = kv_bytes(subject.model, 1, subject.kv_dtype, int(tp)).kv_bytes_per_gpu
        except InputError as error:
            raise Unknown(str(error)) from None
        made.append(Expected(float(own), f"{format_si(own, 'byte', 6)} a token on one of {tp:g} GPUs"))
    return made


def check_blocks(case: Case) -> Iterator[Finding]:
    """Blocks x tokens of a block = tokens of the pool, up to one block."""
    for run, blocks in case.each("kv_cache_blocks"):
        tokens, size = run.get("kv_cache_tokens"), run.number("block_size", blocks)
        if tokens is None or not blocks.value:
            continue
        of, what = named((blocks, tokens)), f"{blocks.value:,.0f} blocks and {tokens.value:,.0f} tokens"
        if not size:
            yield not_computable(BLOCKS, of, what, "the tokens of a block are not stated")
            continue
        told = f"{tokens.value:,.0f} / {size:g} = {tokens.value / size:,.6g} against {blocks.value:,.0f}"
        if math.floor(tokens.value / size) == blocks.value:
            yield Finding(BLOCKS, HOLDS, of, f"{what} agree at {size:g} tokens a block", told)
        else:
            same = blocks.value == tokens.value and size > 1
            why = (
                "the blocks are tokens"
                if same
                else f"they give {tokens.value / blocks.value:.4g} tokens a block"
            )
            yield Finding(
                BLOCKS, INCONSISTENT, of, f"{what} disagree at {size:g} tokens a block: {why}", told
            )


def check_full_length(case: Case) -> Iterator[Finding]:
    """Pool tokens / longest sequence = the concurrency that an engine's log prints at that length."""
    for run, printed in case.each("full_length_sequences"):
        longest = run.number("max_model_len", printed)
        tokens = tokens_of_pool(run) or _held(case, run, longest)
        if tokens is None or not printed.value:
            continue
        of, what = named((*tokens.of, printed)), f"{tokens.told} and {printed.value:g} sequences"
        if not longest:
            yield not_computable(FULL, of, what, "the longest sequence is not stated")
            continue
        found = tokens.count / longest
        told = f"{tokens.count:,.0f} / {longest:,.0f} = {found:.4g} against {printed.value:g}"
        if abs(found / printed.value - 1) <= SLACK + rounding(printed) + rounding(tokens.of[0]):
            yield Finding(FULL, HOLDS, of, f"{what} of {longest:,.0f} tokens agree", told)
        else:
            said = f"{what} of {longest:,.0f} tokens disagree: {_why(case, run)}"
            yield Finding(FULL, INCONSISTENT, of, said, told)


def _held(case: Case, run: Run, longest: float | None) -> Tokens | None:
    """Tokens that the bytes of a pool hold, where the report counts none."""
    pool = run.get("kv_pool_bytes")
    if pool is None or not longest or of_one_gpu(pool):
        return None
    try:
        each = token_bytes(case.subject(run, pool))
    except Unknown:
        return None
    return Tokens(pool.value / each, (pool,), f"{pool.text} of {each:,.0f} B a token")


def _why(case: Case, run: Run) -> str:
    """What makes tokens and sequences differ, as far as the model tells."""
    try:
        token_bytes(case.subject(run))
    except Unknown as why:
        return f"{why}, so that tokens cannot be turned into bytes or sequences"
    return "every layer grows with the sequence, so they should not"


def check_weight_bytes(case: Case) -> Iterator[Finding]:
    """Bytes of weights as stated against those of the model, on one GPU where TP is stated."""
    for run, figure in case.each("weight_bytes"):
        what = f"{figure.metric} {figure.text}"
        try:
            wanted = _weights(case.subject(run, figure), figure)
        except Unknown as why:
            yield not_computable(WEIGHTS, (figure.name,), what, str(why))
            continue
        open_ = _LOADED + rounding(figure) + (_BUFFERS / figure.value if figure.value else 0.0)
        yield from judge(WEIGHTS, (figure,), what, figure.value, wanted, readings(figure), open_)


def _weights(subject: Subject, figure: Figure) -> list[Expected]:
    whole, made = subject.weight_bytes, []
    shares = subject.machine.per_decode or 1
    one = of_one_gpu(figure)
    if one or shares > 1:
        made.append(Expected(whole / shares, f"{_gib(whole)} / {shares} = {_gib(whole / shares)} on one GPU"))
    if not one:
        made.append(Expected(whole, f"{_gib(whole)} of {subject.model.name}"))
    return made


def _gib(size: float) -> str:
    return format_si(size, "byte", 4, binary=True)
