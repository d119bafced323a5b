"""Step times fitted to an engine's log: what a file of them holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from ..data import Reader, load_toml
from ..errors import InputError

KIND = "step times"
#: Errors that a file states of each half of its log: of these times, at these percentiles.
TIMES = ("ttft", "tpot", "e2e")
PERCENTILES = (50, 95)
#: What TTFT and E2E of a log count from.
STARTS = ("queued", "sent")
ERRORS = tuple(f"{time}_p{percentile}" for time in TIMES for percentile in PERCENTILES)


@dataclass(frozen=True)
class Steps:
    """Step times that are affine in what a step holds; all in seconds.

    ``fixed_s``: of every step: reading the weights, launching kernels, what TP's collectives cost at least.
    ``sequence_s``: of each decode: its row of every product, its sampling. ``cached_token_s``: of each token of
    the decodes' contexts: reading its KV. ``prompt_token_s``: of each prompt token: its row of every product and
    collective. ``pair_s``: of each pair of a prompt token and one before it: attention of prompts.

    Not told apart: products that are bound by weights in small steps and by arithmetic in large ones, and
    attention of prompts and decodes that share a kernel. The fit balances them over the steps of its log.
    """

    fixed_s: float
    sequence_s: float
    cached_token_s: float
    prompt_token_s: float
    pair_s: float


@dataclass(frozen=True)
class StepFit:
    """Step times of a model on some GPUs under an engine, and how they were found.

    ``requests`` and ``held_out_requests`` were measured in the half that was fitted and in the other one;
    ``fitted`` and ``held_out`` are the errors there: predicted over measured percentile less 1. The engine ran
    with ``token_budget`` tokens and ``max_seqs`` sequences a step at most, a KV pool of ``kv_tokens``, and
    (``lag``) planned a step while the one before it ran. ``ttft_from``: TTFT and E2E were counted
    from when the engine queued a request ("queued"), or from its sending ("sent").
    """

    model: str
    gpu: str
    tp: int
    stack: str
    date: str
    source: str
    steps: Steps
    requests: int
    held_out_requests: int
    ttft_from: str
    token_budget: int
    max_seqs: int
    kv_tokens: int
    lag: bool
    fitted: Mapping[str, float] = field(hash=False)
    held_out: Mapping[str, float] = field(hash=False)


TEXTS = ("model", "gpu", "stack", "date", "source", "ttft_from")
COUNTS = ("tp", "requests", "held_out_requests", "token_budget", "max_seqs", "kv_tokens")
PARAMETERS = tuple(f.name.removesuffix("_s") for f in fields(Steps))
PARTS = ("fitted", "held_out")


def load_steps(path: str | Path) -> StepFit:
    """Return the step times of a file that ``costmodel calibrate`` wrote. Raises InputError with all its problems."""
    reader = Reader(load_toml(Path(path)), str(path))
    if reader.table.get("kind") != KIND:
        stated = f"kind is {reader.table['kind']!r}" if "kind" in reader.table else "no kind is stated"
        remedy = "costmodel calibrate LOG -o FILE.toml writes one"
        raise InputError(f"is no file of step times: {stated}, expected {KIND!r}; {remedy}", where=str(path))
    reader.keys(("kind", *TEXTS, *COUNTS, "lag", "steps", *PARTS))
    steps = reader.sub("steps")
    steps.keys(PARAMETERS)
    times = [steps.quantity(name, "second", positive=False) for name in PARAMETERS]
    if not any(times):
        steps.note("[steps] has no time above 0")
    lag = reader.table.get("lag", False)
    if not isinstance(lag, bool):
        reader.note(f"lag: {lag!r} is not true or false")
    found = StepFit(
        model=reader.text("model"),
        gpu=reader.text("gpu"),
        tp=reader.whole("tp", low=1),
        stack=reader.text("stack"),
        date=reader.text("date"),
        source=reader.text("source"),
        steps=Steps(*times),
        requests=reader.whole("requests", low=1),
        held_out_requests=reader.whole("held_out_requests", low=1),
        ttft_from=reader.choice("ttft_from", STARTS),
        token_budget=reader.whole("token_budget", low=1),
        max_seqs=reader.whole("max_seqs", low=1),
        kv_tokens=reader.whole("kv_tokens", low=1),
        lag=bool(lag),
        fitted=_errors(reader.sub("fitted")),
        held_out=_errors(reader.sub("held_out")),
    )
    reader.close()
    return found


def _errors(reader: Reader) -> dict[str, float]:
    reader.keys((), ERRORS)
    return {name: reader.number(name, low=-1) for name in ERRORS if name in reader.table}
