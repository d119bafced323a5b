"""What chunks of a prompt read again: earlier keys and values, and on a mixture of experts nearly all experts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...formulas.moe import distinct_experts
from ...inputs.model import Experts
from .. import words
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding, Inversion
from ..runs import Run
from ..subject import Subject, Unknown
from .trends import line

CHECK = "chunk_rereads"
#: Part of a prompt's least time below which re-reads are no cause of anything.
_NEGLIGIBLE = 0.1


@dataclass(frozen=True)
class Chunked:
    """A prompt of ``tokens`` in ``passes`` of ``chunk``."""

    run: Run
    subject: Subject
    tokens: int
    chunk: int

    @property
    def passes(self) -> int:
        """Passes over the model."""
        return math.ceil(self.tokens / self.chunk)

    @property
    def of(self) -> tuple[str, ...]:
        """Names of the run's figures."""
        return tuple(figure.name for figure in self.run.figures)


def _prompts(case: Case) -> Iterator[Chunked]:
    seen = set()
    for run in case.runs:
        tokens, chunk = run.number("input_tokens"), run.number("max_num_batched_tokens")
        if not tokens or not chunk or chunk >= tokens or (tokens, chunk) in seen:
            continue
        seen.add((tokens, chunk))
        yield Chunked(run, case.subject(run), int(tokens), int(chunk))


def kv_read_again(prompt: Chunked) -> tuple[float, str]:
    """Return the bytes of earlier keys and values that later chunks read. Raises Unknown."""
    n, each = prompt.passes, prompt.subject.kv_bytes(prompt.chunk) / prompt.chunk
    again = prompt.chunk * n * (n - 1) // 2
    return (
        again * each,
        f"{prompt.chunk:,} x {n} x {n - 1} / 2 = {again:,} tokens read again, {each:,.0f} B each",
    )


def expert_bytes(subject: Subject, tokens: int) -> float:
    """Return the bytes of experts that a pass of so many tokens reads, spread evenly; 0 without experts."""
    total = 0.0
    for layer in subject.model.layers:
        for block in layer.blocks:
            if isinstance(block, Experts):
                hidden = block.latent or subject.model.hidden
                one = block.matrices * hidden * block.width * subject.weight_bytes / subject.parameters
                total += layer.count * one * float(distinct_experts(block.experts, block.top_k, tokens))
    return total


def invert_chunks(case: Case) -> Iterator[Inversion]:
    """Say what the chunks of a prompt read again, in bytes and, where the GPUs are known, in time."""
    for prompt in _prompts(case):
        try:
            size, told = kv_read_again(prompt)
            yield from _read(prompt, "kv_reread", size, told, "earlier keys and values")
            experts = expert_bytes(prompt.subject, prompt.chunk)
        except Unknown:
            continue
        if experts:
            once = expert_bytes(prompt.subject, prompt.tokens)
            size = prompt.passes * experts - once
            told = f"{prompt.passes} passes x {words.size(experts)} - {words.size(once)} of one pass"
            yield from _read(prompt, "expert_reread", size, told, "experts")


def _read(prompt: Chunked, quantity: str, size: float, told: str, what: str) -> Iterator[Inversion]:
    yield Inversion(
        f"{quantity}_bytes", size, prompt.of, told, None, f"{what} that the chunks of a prompt read again"
    )
    try:
        time, how = _time(prompt, size)
    except Unknown as why:
        yield Inversion(f"{quantity}_s", None, prompt.of, told, None, "", str(why))
        return
    yield Inversion(f"{quantity}_s", time, prompt.of, f"{told} / {how}", None,
                    f"reading {what} again takes {words.seconds(time)} of a prompt at peak")  # fmt: skip


def _time(prompt: Chunked, size: float) -> tuple[float, str]:
    gpus, rate = prompt.subject.machine.most_per_prompt, prompt.subject.bandwidth
    if gpus is None:
        raise Unknown("the number of GPUs is not stated")
    return size / (gpus * rate), f"({gpus} x {words.rate(rate)})"


def invert_chunk_sizes(case: Case) -> Iterator[Inversion]:
    """Say what each pass over the model costs, of a prompt's times by the size of its chunks."""
    for series in case.series:
        tokens = series.run.number("input_tokens", series.points[0][1])
        if (
            series.varies != "max_num_batched_tokens"
            or series.metric not in ("ttft", "prefill_time")
            or not tokens
        ):
            continue
        points = [
            (float(math.ceil(tokens / chunk)), figure.value) for chunk, figure in series.points if chunk
        ]
        if len({passes for passes, _ in points}) < 2 or any(value <= 0 for _, value in points):
            continue
        once, each, miss = line(points)
        told = f"{len(points)} sizes: {words.seconds(once)} + {words.seconds(each)} a pass, at most {miss:.0%} off"
        said = f"each pass costs {words.seconds(each)} beyond the prompt's own {words.seconds(once)}"
        yield Inversion("per_pass_s", each, series.names, told, each >= 0, said)


def check_chunks(case: Case) -> Iterator[Finding]:
    """Compare what chunks read again with the least time of the prompt, and with a slow-down that is claimed."""
    for prompt in _prompts(case):
        try:
            gpus = prompt.subject.machine.most_per_prompt
            if gpus is None:
                continue
            kv, _ = _time(prompt, kv_read_again(prompt)[0])
            experts = prompt.passes * expert_bytes(prompt.subject, prompt.chunk) - expert_bytes(
                prompt.subject, prompt.tokens
            )
            again, least = (
                kv + _time(prompt, max(experts, 0))[0],
                prompt.subject.prefill(prompt.tokens, 0, gpus),
            )
        except Unknown:
            continue
        part = again / least.seconds
        told = f"{words.seconds(again)} read again at peak beside {least.arithmetic}"
        claim = prompt.run.get("prefill_time_ratio")
        if claim is not None and claim.value > 1 + 2 * part + _NEGLIGIBLE:
            said = (
                f"{claim.text} is claimed; reading again makes at most {1 + part:.3g}x: passes cost the rest"
            )
            yield Finding(CHECK, SUSPICIOUS, (claim.name,), said, told)
            continue
        small = "no cause of a slow-down" if part < _NEGLIGIBLE else "a part of what chunks cost"
        said = f"what {prompt.passes} chunks read again is {part:.1%} of the prompt's least time: {small}"
        yield Finding(CHECK, HOLDS, prompt.of, said, told)
