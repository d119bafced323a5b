"""Sweeps of KV copies."""

from __future__ import annotations

from typing import Any

from ..questions.transfer import TransferAnswer, ask_transfer
from .axes import AxisKind
from .kinds import CONNECTOR, KV_DTYPE, LINK, MODEL, MOST_GPUS, NICS, OVERLAP
from .pointwise import Pointwise

FIGURES = (
    "payload_bytes", "wire_bytes", "replication", "descriptors", "wire_s", "bound_s", "exposed_s", "handover_s",
    "effective_bytes_per_s",
)  # fmt: skip


def _ask(**given: Any) -> TransferAnswer:
    return ask_transfer(given.pop("model"), given.pop("tokens"), given.pop("link"), **given)


def _read(answer: TransferAnswer, name: str) -> float | None:
    found: float | None = getattr(answer, name)
    return found


QUESTION = Pointwise(
    name="transfer",
    outer=(
        MODEL, LINK, CONNECTOR, KV_DTYPE, OVERLAP,
        AxisKind("--prefill-tp", "prefill_tp", "Of the instance that sends.", "count", 1, MOST_GPUS, default=1),
        AxisKind("--decode-tp", "decode_tp", "Of the instance that receives.", "count", 1, MOST_GPUS, default=1),
    ),
    inner=(
        NICS,
        AxisKind("--prefill-time", "prefill_s", "Prefill that a layer-wise copy hides behind.", "second", 0, 1e6),
        AxisKind("--control", "control_s", "Control time of a hand-over, such as 100ms.", "second", 0, 1e6),
        AxisKind("--tokens", "tokens", "Tokens whose KV is copied.", "token", 1),
    ),
    figures=FIGURES,
    needed={"MODEL": "model", "--link": "link", "--tokens": "tokens"},
    ask=_ask,
    read=_read,
)  # fmt: skip
