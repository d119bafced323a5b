"""The page of ``costmodel transfer``."""

from __future__ import annotations

from ..questions.transfer import TransferAnswer
from .page import Page, facts

COPY = {
    "payload_bytes": "KV in whole blocks",
    "wire_bytes": "bytes on the wire",
    "replication": "copies of each byte",
    "blocks": "blocks",
    "descriptors": "descriptors",
    "link_bytes_per_s": "peak bandwidth",
    "bandwidth_share": "share of it reached",
    "latency_s": "latency",
    "wire_s": "time on a free link",
    "bound_s": "bound",
    "exposed_s": "exposed after prefill",
    "control_s": "control",
    "handover_s": "hand-over",
    "effective_bytes_per_s": "effective bandwidth",
    "intensity": "flop/byte",
}


def page(answer: TransferAnswer, detail: bool) -> Page:
    """Return the page of an answer."""
    ends = f"TP{answer.prefill_tp} to TP{answer.decode_tp}, {answer.kv_dtype}"
    path = f"{answer.nics} x {answer.link}, {answer.connector}, {answer.overlap}"
    title = f"KV copy of {answer.model}: {answer.tokens:,} tokens, {ends}, over {path}"
    return Page(title, (facts(answer, COPY),), answer.about, cite=True)
