"""Bytes of the KV cache against what they must be, and the unit slip that explains the difference where one does."""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import CACHE_BYTES
from ...errors import InputError
from ...formulas.kv import blocks_ceil, blocks_plus_one
from ...inputs.model import LatentAttention
from ...memory.kv import kv_bytes
from ...records import Figure
from ...units import format_si
from ..case import MEANS, Case
from ..finding import INCONSISTENT, SUSPICIOUS, Finding, not_computable
from ..runs import Run, named
from ..sizes import Expected, judge
from ..subject import Subject, Unknown
from ..written import SLACK, readings, rounding, unit_of_condition

COPY, SIZE, PAYLOAD = "copy_bytes", "kv_bytes", "payload_bytes"
#: A condition is a number without its text: sizes are written with three digits, so to half a percent at worst.
_THREE_DIGITS = 0.006
#: Tokens of the largest blocks in use: those of Mooncake's and LMCache's chunks.
_LARGEST_BLOCK = 256


def check_copy_bytes(case: Case) -> Iterator[Finding]:
    """Time x bandwidth of a copy = its bytes: those stated, else the KV of the prompt."""
    for run, rate in case.each("kv_transfer_bandwidth"):
        time = run.get("kv_transfer_time", rate.statistic) or run.get("kv_transfer_time", *MEANS)
        if time is None or time.statistic not in (rate.statistic, None, "mean"):
            continue
        what = f"{rate.text} x {time.text}"
        try:
            wanted = _payload(case.subject(run, rate), run, rate)
        except Unknown as why:
            yield not_computable(COPY, named((rate, time)), what, str(why))
            continue
        moved = rate.value * time.value
        # A copy may leave out what the other side has; a stated payload is what was copied.
        apart = INCONSISTENT if run.number("payload", rate) else SUSPICIOUS
        open_ = SLACK + rounding(rate) + rounding(time)
        for finding in judge(COPY, (rate, time), what, moved, wanted, readings(rate), open_, apart):
            over = _over(case.subject(run, rate), run, rate, moved) if finding.id == COPY else None
            if finding.grade != SUSPICIOUS or over is None:
                yield finding
                continue
            reason = f"it is {over:.3g} tokens more than the prompt, which may be a block: its tokens are not stated"
            yield not_computable(COPY, finding.of, what, reason)


def _over(subject: Subject, run: Run, figure: Figure, moved: float) -> float | None:
    """Tokens moved beyond the prompt, where a block of unstated size may be what they fill; else None."""
    tokens = int(run.number("input_tokens", figure) or 0)
    if run.number("block_size", figure) or run.number("payload", figure) or not tokens:
        return None
    each = _held(subject, tokens + 1) - _held(subject, tokens)
    over = (moved - _held(subject, tokens)) / each if each > 0 else 0.0
    return over if 0 < over <= _LARGEST_BLOCK else None


def _payload(subject: Subject, run: Run, figure: Figure) -> list[Expected]:
    stated = run.number("payload", figure)
    if stated:
        return [Expected(stated, f"the stated {format_si(stated, 'byte', 4)}")]
    return _prompt(subject, run, figure)


def check_kv_bytes(case: Case) -> Iterator[Finding]:
    """KV bytes of a prompt and of a token as stated against those of the model."""
    for run, figure in case.each("kv_bytes", "kv_bytes_per_token"):
        subject, what = case.subject(run, figure), f"{figure.metric} {figure.text}"
        try:
            wanted = _token(subject) if figure.metric != "kv_bytes" else _prompt(subject, run, figure)
        except Unknown as why:
            yield not_computable(SIZE, (figure.name,), what, str(why))
            continue
        open_ = SLACK + rounding(figure)
        yield from judge(SIZE, (figure,), what, figure.value, wanted, readings(figure), open_)


def check_payload(case: Case) -> Iterator[Finding]:
    """Bytes of a copy as its condition states them against the KV of the prompt, where both are stated."""
    seen: set[tuple[float, float]] = set()
    for run, figure in case.each("kv_transfer_time", "handover_time"):
        payload, tokens = run.number("payload", figure), run.number("input_tokens", figure)
        if not payload or not tokens or (payload, tokens) in seen:
            continue
        seen.add((payload, tokens))
        subject, what = case.subject(run, figure), f"payload {format_si(payload, 'byte', 4)}"
        try:
            wanted = _prompt(subject, run, figure)
        except Unknown as why:
            yield not_computable(PAYLOAD, (figure.name,), what, str(why))
            continue
        yield from judge(
            PAYLOAD, (figure,), what, payload, wanted, unit_of_condition(payload), _THREE_DIGITS, SUSPICIOUS
        )


def _token(subject: Subject) -> list[Expected]:
    """Bytes of one more token, once and as often as tensor parallelism repeats it."""
    first, second = _held(subject, 1), _held(subject, 2)
    return _variants(subject, second - first, "a token more")


def _prompt(subject: Subject, run: Run, figure: Figure) -> list[Expected]:
    """Bytes of a prompt: exact, in whole blocks, and one block more, where the size of blocks is stated."""
    tokens = run.number("input_tokens", figure)
    if not tokens:
        raise Unknown("neither bytes nor prompt tokens are stated")
    made = _variants(subject, _held(subject, int(tokens)), f"{tokens:,.0f} tokens")
    block = run.number("block_size", figure)
    for rule in (blocks_ceil, blocks_plus_one) if block else ():
        blocks = int(rule(int(tokens), int(block or 1)))
        made += _variants(
            subject, _held(subject, blocks * int(block or 1)), f"{blocks} blocks of {block:g} tokens"
        )
    return made


def _held(subject: Subject, tokens: int) -> float:
    """Bytes of a sequence by the model, not by a size of a token that the report states."""
    try:
        return float(kv_bytes(subject.model, tokens, subject.kv_dtype).kv_bytes)
    except InputError as error:
        raise Unknown(str(error)) from None


def _variants(subject: Subject, size: float, told: str) -> list[Expected]:
    """Bytes stored once, as often as tensor parallelism repeats them, and in 8 bits where no dtype is stated."""
    made = [Expected(size, f"{told}, {format_si(size, 'byte', 4)}")]
    tp = subject.machine.per_prefill
    try:
        copies = kv_bytes(subject.model, 1, subject.kv_dtype, tp).replication if tp else 1.0
    except InputError:
        copies = 1.0
    if copies > 1:
        repeated = format_si(size * copies, "byte", 4)
        said = f"{told} {copies:g} times, as TP {tp} is more than the model's KV heads, {repeated}"
        made.append(Expected(size * copies, said, "replicated_kv"))
    expanded = size * _expansion(subject)
    if expanded > size:
        said = f"{told} of keys and values instead of latents, {format_si(expanded, 'byte', 4)}"
        made.append(Expected(expanded, said, "expanded_latents"))
    return made + narrow_cache(subject, size, told)


def narrow_cache(subject: Subject, size: float, told: str) -> list[Expected]:
    """Return the bytes in 8 bits instead of 16, where the report states no dtype of its cache."""
    if {"kv_dtype", "kv_bytes_per_token"} & subject.conditions.keys() or CACHE_BYTES.get(
        subject.kv_dtype
    ) != 2:
        return []
    return [Expected(size / 2, f"{told} in 8 bits, {format_si(size / 2, 'byte', 4)}", "narrow_kv")]


def _expansion(subject: Subject) -> float:
    """How many times the cache of latents the keys and values of all heads are; 1 where a model caches no latents."""
    latents = [
        (layer.count, block)
        for layer in subject.model.layers
        for block in layer.blocks
        if isinstance(block, LatentAttention) and block.indexer is None
    ]
    if not latents or sum(count for count, _ in latents) < sum(layer.count for layer in subject.model.layers):
        return 1.0
    whole = sum(count * mla.heads * (mla.nope_dim + mla.rope_dim + mla.v_dim) for count, mla in latents)
    return whole / sum(count * (mla.kv_rank + mla.rope_dim) for count, mla in latents)
