"""What every question does with its inputs: accept names or loaded objects, and check whole numbers."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..families import read_model
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu, load_gpu
from ..inputs.link import Connector, Link, load_connector, load_link
from ..inputs.model import Model
from ..inputs.parameters import loaded_dtype
from ..inputs.stack import Stack
from ..memory.kv import check_cache
from ..memory.parallelism import Parallelism
from ..serving.instance import InstanceKind, default_cache_dtype, make_instance

_MOST = 10**9


def as_model(model: Model | str) -> Model:
    """Return the model of a packaged name or a path of a config.json. Raises InputError."""
    return read_model(model) if isinstance(model, str) else model


def as_gpu(gpu: Gpu | str | Path) -> Gpu:
    """Return the GPU of a packaged name or a path of a TOML file. Raises InputError."""
    return gpu if isinstance(gpu, Gpu) else load_gpu(gpu)


def as_link(link: Link | str | Path) -> Link:
    """Return the link of a packaged name or a path of a TOML file. Raises InputError."""
    return link if isinstance(link, Link) else load_link(link)


def as_connector(connector: Connector | str | Path) -> Connector:
    """Return the connector of a packaged name or a path of a TOML file. Raises InputError."""
    return connector if isinstance(connector, Connector) else load_connector(connector)


def as_instance(
    model: Model | str,
    hardware: Gpu | str | Path,
    *,
    tp: int = 1,
    ep: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    efficiency: Efficiency | str | Path | None = None,
    stack: Stack | str | Path | None = None,
    expert_skew: float = 0.0,
) -> InstanceKind:
    """Return the instance kind of these names or objects; ``efficiency``: those to use first;
    ``stack``: what an engine adds to them.

    Raises InputError for anything unknown or a layout that does not divide the model.
    """
    gpu = as_gpu(hardware)
    layout = Parallelism(tp=tp, ep=ep)
    return make_instance(
        as_model(model), gpu, layout, dtype=dtype, kv_dtype=kv_dtype, efficiency=efficiency, stack=stack,
        expert_skew=expert_skew,
    )  # fmt: skip


def kv_dtype_of(model: Model, kv_dtype: str | None, dtype: str | None = None) -> str:
    """Return the dtype of the cache: as asked, else after the weights.

    Raises InputError for a dtype that no cache of the model has.
    """
    if kv_dtype is not None and kv_dtype != "auto":
        check_cache(model, kv_dtype)
        return kv_dtype
    return default_cache_dtype(model, dtype or loaded_dtype(model))


def check_whole(option: str, value: object, low: int = 1) -> None:
    """Raise InputError unless ``value`` is a whole number of at least ``low``, and at most 10**9."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InputError(f"{option} must be a whole number of at least {low}, not {value!r}")
    if value > _MOST:
        raise InputError(f"{option} must be at most {_MOST:,}")


def context_warnings(model: Model, tokens: int) -> tuple[str, ...]:
    """Return what to beware of in the model, and when ``tokens`` exceed what its configuration allows."""
    if model.max_context is None or tokens <= model.max_context:
        return model.warnings
    beyond = f"{tokens:,} tokens exceed the {model.max_context:,} positions that {model.name} is made for"
    return (*model.warnings, beyond)


def model_source(model: Model) -> str:
    """Return where the model's sizes come from."""
    return f"{model.name}: {model.source}"
