"""Axes that several questions have."""

from __future__ import annotations

from ..dtypes import CACHE_BYTES
from ..errors import InputError, unknown
from .axes import AxisKind

MOST_GPUS, MOST_REQUESTS = 4096, 10**7


def _model(name: str) -> object:
    from ..families import read_model

    return read_model(name)


def _gpu(name: str) -> object:
    from ..inputs.hardware import load_gpu

    return load_gpu(name)


def _efficiency(name: str) -> object:
    from ..inputs.efficiency import load_efficiency

    return load_efficiency(name)


def _stack(name: str) -> object:
    from ..inputs.stack import packaged_stack

    return packaged_stack(name)


def _link(name: str) -> object:
    from ..inputs.link import load_link

    return load_link(name)


def _connector(name: str) -> object:
    from ..inputs.link import load_connector

    return load_connector(name)


def _engine(name: str) -> object:
    from ..memory.engine_file import load_engine

    return load_engine(name)


def _cache(name: str) -> None:
    if name not in CACHE_BYTES:
        raise InputError(
            unknown("dtype of a cache", name, CACHE_BYTES, remedy=f"(known: {', '.join(CACHE_BYTES)})")
        )


def _overlap(name: str) -> None:
    known = ("serial", "layerwise")
    if name not in known:
        raise InputError(unknown("overlap", name, known, remedy=f"(one of {', '.join(known)})"))


MODEL = AxisKind("MODEL", "model", "Packaged names, or paths of a config.json.", check=_model)
HARDWARE = AxisKind("--hardware", "hardware", "GPUs: packaged names or TOML files.", check=_gpu)
TP = AxisKind("--tp", "tp", "Tensor-parallel GPUs.", "count", 1, MOST_GPUS, default=1)
EP = AxisKind("--ep", "ep", "GPUs of --tp that share out whole experts.", "count", 1, MOST_GPUS, default=1)
DTYPE = AxisKind("--dtype", "dtype", "Dtypes of the weights; default: the checkpoint's.")
KV_DTYPE = AxisKind(
    "--kv-dtype", "kv_dtype", "Dtypes of the KV cache; default: after the weights.", check=_cache
)
EFFICIENCY = AxisKind(
    "--efficiency", "efficiency", "Efficiencies in place of the GPU's own: names or files.", check=_efficiency
)
STACK = AxisKind(
    "--stack", "stack", "What an engine adds to its operators: stacks by name or file.", check=_stack
)
SKEW = AxisKind(
    "--expert-skew", "expert_skew", "Deviation of how often experts are chosen, over the mean.", "1", 0, 10
)
ENGINE = AxisKind("--engine", "engine", "Engines that size the KV pool: names or files.", check=_engine)
LINK = AxisKind("--link", "link", "Links that copy the KV: names or files.", check=_link)
CONNECTOR = AxisKind(
    "--connector",
    "connector",
    "Software that copies: names or files.",
    check=_connector,
    default="mooncake-vllm",
)
OVERLAP = AxisKind("--overlap", "overlap", "serial, layerwise.", check=_overlap, default="serial")
NICS = AxisKind(
    "--nics", "nics", "Ports of an instance that carry the copy.", "count", 1, MOST_GPUS, default=1
)
