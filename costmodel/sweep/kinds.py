"""Axes that several questions have."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import is_path
from ..dtypes import CACHE_BYTES, SPELLINGS, dtype_bytes
from ..errors import InputError, unknown
from .axes import AxisKind

if TYPE_CHECKING:
    from ..inputs.hardware import Gpu
    from ..inputs.model import Model

MOST_GPUS, MOST_REQUESTS = 4096, 10**7


def written(names: Iterable[Any]) -> tuple[int, ...]:
    """Return when the files among names were written: with it, what is kept of them is that of the file as it is."""
    paths = [
        Path(name) for name in names if isinstance(name, str) and (is_path(name) or name.endswith(".json"))
    ]
    files = [path / "config.json" if path.is_dir() else path for path in paths]
    return tuple(file.stat().st_mtime_ns for file in files if file.is_file())


def known_model(name: str) -> Model:
    """Return a model, read once in a process."""
    return _read_model(name, written((name,)))


@lru_cache(maxsize=64)
def _read_model(name: str, when: tuple[int, ...]) -> Model:
    from ..families import read_model

    del when
    return read_model(name)


def known_gpu(name: str) -> Gpu:
    """Return a GPU, read once in a process."""
    return _load_gpu(name, written((name,)))


@lru_cache(maxsize=64)
def _load_gpu(name: str, when: tuple[int, ...]) -> Gpu:
    from ..inputs.hardware import load_gpu

    del when
    return load_gpu(name)


def _model(name: str) -> Hashable:
    """What a model's names have in common: the packaged model, or the file."""
    from ..families import packaged_name

    return os.path.realpath(name) if os.path.exists(name) else packaged_name(name) or name


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
    from ..memory.kv import LATENT_LAYOUTS

    known = (*CACHE_BYTES, *LATENT_LAYOUTS)
    if name not in known:
        raise InputError(unknown("KV dtype", name, known, remedy=f"(known: {', '.join(known)})"))


def _overlap(name: str) -> None:
    known = ("serial", "layerwise")
    if name not in known:
        raise InputError(unknown("overlap", name, known, remedy=f"(one of {', '.join(known)})"))


MODEL = AxisKind(
    "MODEL", "model", "Packaged names, or paths of a config.json.", check=known_model, means=_model
)
HARDWARE = AxisKind("--hardware", "hardware", "GPUs: packaged names or TOML files.", check=known_gpu)
TP = AxisKind("--tp", "tp", "Tensor-parallel GPUs.", "count", 1, MOST_GPUS, default=1)
EP = AxisKind("--ep", "ep", "GPUs of --tp that share out whole experts.", "count", 1, MOST_GPUS, default=1)
DTYPE = AxisKind(
    "--dtype",
    "dtype",
    "Dtypes of the weights; default: the checkpoint's.",
    check=dtype_bytes,
    spellings=SPELLINGS,
)
KV_DTYPE = AxisKind(
    "--kv-dtype",
    "kv_dtype",
    "Dtypes of the KV cache; default: after the weights.",
    check=_cache,
    spellings=SPELLINGS,
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
