"""The copy of a prompt's KV: bytes, descriptors, time on the wire, and the part that stays exposed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..answer import About
from ..errors import InputError
from ..formulas.transfer import handover_time
from ..inputs.link import Connector, Link
from ..inputs.model import Model
from ..memory.parallelism import check_tp
from ..serving.handover import Handover, KvEnd, analyse_transfer
from .inputs import as_connector, as_link, as_model, check_whole, context_warnings, kv_dtype_of, model_source

SCHEMA = "costmodel.transfer/1"
CONNECTOR = "mooncake-vllm"


@dataclass(frozen=True)
class TransferAnswer:
    """A copy between two instances. Bandwidths are of one direction; times in seconds on a free link.

    ``link_bytes_per_s`` is the peak of all ports; the copy reaches ``bandwidth_share`` of it after
    ``latency_s``. ``handover_s`` = ``control_s`` + ``exposed_s``. ``intensity`` is in flop/byte.
    """

    schema: str
    model: str
    link: str
    connector: str
    tokens: int
    prefill_tp: int
    decode_tp: int
    kv_dtype: str
    nics: int
    overlap: str
    blocks: int
    payload_bytes: int
    wire_bytes: int
    replication: float
    descriptors: int
    link_bytes_per_s: float
    bandwidth_share: float
    latency_s: float
    per_descriptor_s: float | None
    per_descriptor_reason: str | None
    wire_s: float
    bound_s: float
    exposed_s: float
    control_s: float | None
    control_reason: str | None
    handover_s: float | None
    handover_reason: str | None
    effective_bytes_per_s: float
    intensity: float
    about: About


def ask_transfer(
    model: Model | str,
    tokens: int,
    link: Link | str | Path,
    *,
    connector: Connector | str | Path = CONNECTOR,
    nics: int = 1,
    prefill_tp: int = 1,
    decode_tp: int = 1,
    kv_dtype: str | None = None,
    overlap: str = "serial",
    prefill_s: float | None = None,
    control_s: float | None = None,
) -> TransferAnswer:
    """Return the copy of the KV of ``tokens`` tokens over ``nics`` ports of ``link``. No GPU is needed.

    ``prefill_s``: time of the prefill that a layer-wise copy hides behind, only for that overlap.
    ``control_s``: control time of a hand-over; None: the connector's, if known. Raises InputError.
    """
    found, wire, software = as_model(model), as_link(link), as_connector(connector)
    check_whole("--tokens", tokens)
    check_whole("--nics", nics)
    if (overlap == "layerwise") != (prefill_s is not None):
        raise InputError("--overlap layerwise needs --prefill-time, behind which it hides; serial takes none")
    check_tp(found, prefill_tp)
    check_tp(found, decode_tp)
    stored = kv_dtype_of(found, kv_dtype)
    control = software.control_s if control_s is None else control_s
    ends = KvEnd(found, prefill_tp, stored), KvEnd(found, decode_tp, stored)
    path = Handover(*ends, wire, software, nics=nics, overlap=overlap, control_s=control or 0.0)
    copy = analyse_transfer(path, tokens, prefill_s or 0.0)
    return TransferAnswer(
        schema=SCHEMA,
        model=found.name,
        link=wire.name,
        connector=software.name,
        tokens=tokens,
        prefill_tp=prefill_tp,
        decode_tp=decode_tp,
        kv_dtype=stored,
        nics=nics,
        overlap=overlap,
        blocks=int(copy.blocks),
        payload_bytes=int(copy.payload_bytes),
        wire_bytes=int(copy.wire_bytes),
        replication=copy.replication,
        descriptors=int(copy.descriptors),
        link_bytes_per_s=copy.bandwidth_bytes_per_s,
        bandwidth_share=software.bandwidth_share,
        latency_s=path.latency_s,
        per_descriptor_s=software.per_descriptor_s,
        per_descriptor_reason=_why(software, "per_descriptor"),
        wire_s=copy.wire_s,
        bound_s=copy.bound_s,
        exposed_s=copy.exposed_s,
        control_s=control,
        control_reason=_why(software, "control") if control is None else None,
        handover_s=None if control is None else float(handover_time(control, copy.exposed_s)),
        handover_reason="its control time is not known" if control is None else None,
        effective_bytes_per_s=copy.effective_bytes_per_s,
        intensity=copy.intensity,
        about=_about(path, tokens, kv_dtype, control),
    )


def _why(connector: Connector, key: str) -> str | None:
    return None if key in connector.values else connector.absent.get(key, "its file does not state it")


def _about(path: Handover, tokens: int, asked: str | None, control: float | None) -> About:
    link, connector, model = path.link, path.connector, path.source.model
    share = connector.values["bandwidth_share"]
    errors = [
        f"{error:.1%} {part}"
        for part, error in (("fitted", connector.fitted_mape), ("held out", connector.held_out_mape))
        if error is not None
    ]
    bandwidth = link.values["bandwidth"]
    said = [
        f"bandwidth: {path.nics} x {bandwidth.text} (peak of one {link.per}) x {share.value:g}, the share "
        f"that {connector.title} reached; mean error {' and '.join(errors) or 'not stated'}",
        "operational intensity is 0: no faster GPU shortens a copy",
        f"blocks of {connector.block_tokens} tokens, {connector.block_rule.replace('_', ' ')}",
    ]
    if path.overlap == "layerwise":
        said.append("layers take equal shares of the prefill and of the copy")
    if asked is None:
        said.append(f"KV in {path.source.kv_dtype}, after the dtype of the weights")
    sources = [
        model_source(model),
        f"{link.name} bandwidth, {bandwidth.text}: {bandwidth.source}",
        *_sources(connector),
    ]
    left_out = ["other copies on the link"]
    if control is None:
        left_out.append("control of the hand-over (pass --control)")
    if connector.per_descriptor_s is None:
        left_out.append("descriptors apart from bandwidth")
    return About(tuple(said), tuple(sources), tuple(left_out), _warnings(path, tokens))


def _sources(connector: Connector) -> list[str]:
    """One line a source, with the values that come from it."""
    stated: dict[str, list[str]] = {}
    for key, value in connector.values.items():
        stated.setdefault(value.source, []).append(f"{key} {value.text}")
    return [f"{connector.name} {', '.join(values)}: {source}" for source, values in stated.items()]


def _warnings(path: Handover, tokens: int) -> tuple[str, ...]:
    found = list(context_warnings(path.source.model, tokens))
    ranks = max(path.source.tp, path.target.tp)
    if path.link.per == "gpu" and path.nics < ranks:
        found.append(
            f"{path.link.name} is a figure per GPU and {path.nics} of {ranks} carry the copy; "
            f"pass --nics {ranks} if all do"
        )
    return tuple(found)
