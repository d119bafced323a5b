"""Measured runs of a whole engine: a step, or requests of a closed loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InputError
from ..inputs.hardware import Gpu
from ..inputs.model import Model
from ..measured.points import NOT_STATED, dtype_of
from ..serving.closed_loop import Loop
from ..serving.work import Chunk

#: Kinds of whole measurements.
STEP, END_TO_END = "step", "end_to_end"


@dataclass(frozen=True)
class Shape:
    """What a measured step held: chunks of prompts that it ends, and decodes over ``context`` tokens in all."""

    chunks: tuple[Chunk, ...] = ()
    batch: int = 0
    context: float = 0.0


@dataclass(frozen=True)
class Log:
    """A log of so many requests, which arrive when they arrive."""

    requests: int


@dataclass(frozen=True)
class Setting:
    """What ran: model, dtype of the weights as read from the checkpoint (None: its own), cache, GPU and layout."""

    model: Model
    gpu: Gpu
    tp: int
    ep: int = 1
    dtype: str | None = None
    kv_dtype: str | None = None

    @property
    def key(self) -> str:
        """The configuration in words: what splits runs into fitted and held out."""
        experts = f" EP{self.ep}" if self.ep > 1 else ""
        return f"{self.model.name.rpartition('/')[2]} {self.dtype or self.model.weight_dtype} TP{self.tp}{experts}"


@dataclass(frozen=True)
class Whole:
    """A measured run. ``seconds``: by measure (prefill, decode, ttft, tpot); ``what``: its step, loop or log.

    ``stack``: engine and version as the table names them.
    """

    kind: str
    stack: str
    setting: Setting
    what: Shape | Loop | Log
    seconds: Mapping[str, float] = field(hash=False)
    where: str
    line: int

    @property
    def told(self) -> str:
        """What ran, in words."""
        what = self.what
        if isinstance(what, Loop):
            return f"{what.isl:,} + {what.osl:,} tokens, {what.concurrency} clients"
        if isinstance(what, Log):
            return f"request {self.line + 1} of {what.requests:,}"
        if what.chunks:
            return f"{len(what.chunks)} x {what.chunks[0].tokens:,} prompt tokens"
        return f"{what.batch} decodes over {what.context:,.0f} tokens"

    @property
    def software(self) -> str | None:
        """The software, None where the table does not state it."""
        return None if self.stack == NOT_STATED else self.stack


def most_clients(measure: str) -> int:
    """Return the most clients of a loop whose measure counts: with more, prompts queue for each other."""
    return 4 if measure == "ttft" else 8


def used(run: Whole, measure: str) -> bool:
    """Say whether a measure of a run is one that stacks are fitted to and judged by."""
    return not isinstance(run.what, Loop) or run.what.concurrency <= most_clients(measure)


def loaded_as(model: Model, word: str) -> str | None:
    """Return the dtype to ask for where a table says ``word``: None where the checkpoint has it so.

    Raises InputError for a word that is no dtype of weights.
    """
    text = word.strip().lower()
    if text in ("", model.weight_dtype) or (text == "fp4" and model.weight_dtype == "nvfp4"):
        return None
    found = dtype_of(text)
    if found is None:
        raise InputError(f"weights in {word}: {model.name} is not packaged so")
    return None if found == model.weight_dtype else found
