"""What a record is about, as far as it can be computed with: the model, the GPUs, the link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..dtypes import SPELLINGS, cache_dtype
from ..errors import InputError, nearest
from ..families import packaged_models
from ..families.named import model_named
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu
from ..inputs.model import Model
from ..inputs.parameters import count_parameters, loaded_dtype, weight_bytes
from ..memory.kv import kv_bytes
from ..memory.parallelism import Parallelism
from ..records import Stated
from ..records.machine import Machine, machine_of
from ..serving.bound import Bound, step_bound
from ..serving.instance import InstanceKind, default_cache_dtype
from ..serving.work import Chunk
from ..units import format_si

#: Narrow dtypes that an engine may load a checkpoint in without the report saying so, fastest first.
NARROW = ("fp4", "fp8", "int8")
_DTYPE_WORDS = re.compile(r"(?i)[\s_-]*\b(bf16|fp16|fp8|int8|int4|w4a16|w8a8)\b$")


class Unknown(Exception):
    """A figure cannot be computed: why."""


@dataclass(frozen=True)
class Least:
    """What physics needs at least, and how that was counted."""

    seconds: float
    arithmetic: str
    dtype: str


@dataclass(frozen=True)
class Subject:
    """Model, machine and dtypes of a run, from what is stated of it. Methods raise :class:`Unknown` with the reason."""

    conditions: Mapping[str, Stated]
    machine: Machine

    @cached_property
    def model(self) -> Model:
        """The model, where it is stated and known."""
        text = self.conditions.get("model")
        if text is None:
            raise Unknown("the model is not stated")
        found, reason = _known(str(text))
        if found is None:
            raise Unknown(reason)
        return found

    @property
    def gpu(self) -> Gpu:
        """The GPU, where it is stated and known."""
        if self.machine.gpu is None:
            raise Unknown(str(self.machine.reason))
        return self.machine.gpu

    @property
    def stated_dtype(self) -> str | None:
        """Dtype of the weights as the report states it; None: it does not."""
        text = str(self.conditions.get("dtype", "")).strip().lower()
        if not text:
            found = _DTYPE_WORDS.search(str(self.conditions.get("model", "")))
            text = found[1].lower() if found else ""
        return SPELLINGS.get(text.removeprefix("torch."), text) or None

    def kind(self, dtype: str | None = None) -> InstanceKind:
        """The model on one GPU, of which only physics is asked: no step time can be had of it."""
        wanted = dtype or self.stated_dtype
        weights = loaded_dtype(self.model) if wanted in (None, self.model.weight_dtype) else str(wanted)
        cache = str(self.conditions.get("kv_dtype", "")).lower()
        stored = SPELLINGS.get(cache, cache) if cache and cache != "auto" else ""
        try:
            kv_dtype = stored or default_cache_dtype(self.model, weights)
            kind = InstanceKind(self.model, self.gpu, Parallelism(), weights, kv_dtype, _NOTHING)
            _ = kind.product_peak, kind.activation_peak, kind.storage, kind.kv_bytes_each
        except (InputError, KeyError) as error:
            raise Unknown(str(error)) from None
        return kind

    @property
    def kv_dtype(self) -> str:
        """Dtype of the cache: stated, or what engines take by default for the checkpoint."""
        cache = str(self.conditions.get("kv_dtype", "")).lower()
        if cache and cache != "auto":
            return SPELLINGS.get(cache, cache)
        weights = self.stated_dtype or loaded_dtype(self.model)
        try:
            return default_cache_dtype(self.model, weights)
        except (InputError, KeyError):
            return cache_dtype(weights)

    def prefill(self, tokens: int, cached: int, gpus: int, dtype: str | None = None) -> Least:
        """Least time of a prompt of ``tokens``, ``cached`` of them found in a cache, on so many GPUs."""
        own = self._simple()
        if own is not None:
            flop = 2 * own * (tokens - cached)
            peak = self.gpu.peak_flop_per_s("bf16") * gpus
            said = f"2 x {own:.4g} parameters x {tokens - cached:,} tokens / ({gpus} x {_flops(self.gpu.peak_flop_per_s('bf16'))})"
            return Least(flop / peak, f"{said} = {_s(flop / peak)}", "as stated")
        kind = self.kind(dtype)
        bound = step_bound(kind, (Chunk(tokens - cached, cached),), 1, 0, 0)
        return _least(bound, kind, gpus, f"{tokens - cached:,} prompt tokens")

    def decode(self, batch: float, context: float, gpus: int, dtype: str | None = None) -> Least:
        """Least time of a decode step of ``batch`` sequences over ``context`` cached tokens in all."""
        own = self._simple()
        if own is not None:
            each = (
                1.0
                if str(self.stated_dtype) in ("fp8", "int8")
                else 0.5
                if "4" in str(self.stated_dtype)
                else 2.0
            )
            time = own * each / (self.gpu.memory_bytes_per_s * gpus)
            said = f"{own:.4g} parameters x {each:g} B / ({gpus} x {format_si(self.gpu.memory_bytes_per_s, 'byte/second')})"
            return Least(time, f"{said} = {_s(time)}", "as stated")
        kind = self.kind(dtype)
        bound = step_bound(kind, (), 0, batch, context)
        return _least(bound, kind, gpus, f"a decode step of {batch:g} over {context:,.0f} cached tokens")

    def mixed(self, chunk: int, prefix: int, batch: float, context: float, gpus: int) -> Least:
        """Least time of a step of decodes and one chunk of a prompt."""
        kind = self.kind()
        bound = step_bound(kind, (Chunk(chunk, prefix),), 0, batch, context)
        return _least(bound, kind, gpus, f"{chunk:,} prompt tokens beside {batch:g} decodes")

    def _simple(self) -> float | None:
        """Stated parameters where the model itself is not known."""
        try:
            _ = self.model
            return None
        except Unknown:
            stated = self.conditions.get("active_parameters") or self.conditions.get("parameters")
            if not isinstance(stated, int | float):
                raise
            _ = self.gpu
            return float(stated)

    def kv_bytes(self, tokens: int) -> float:
        """KV bytes of a sequence, each stored once."""
        stated = self.conditions.get("kv_bytes_per_token")
        if isinstance(stated, int | float):
            return float(stated) * tokens
        try:
            return float(kv_bytes(self.model, tokens, self.kv_dtype).kv_bytes)
        except InputError as error:
            raise Unknown(str(error)) from None

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights as loaded."""
        try:
            return float(weight_bytes(self.model, self.stated_dtype))
        except InputError:
            return float(weight_bytes(self.model))

    @property
    def parameters(self) -> int:
        """All parameters of the model."""
        return count_parameters(self.model).total_parameters

    @property
    def memory_bytes(self) -> float:
        """Memory of one GPU."""
        return self.gpu.memory_bytes


@lru_cache(maxsize=256)
def _known(text: str) -> tuple[Model | None, str]:
    """The packaged model that a text means, or why there is none."""
    bare = re.sub(r"(?i)\s+(x\d+ instances|TP\d+)$", "", _DTYPE_WORDS.sub("", text).strip())
    for name in (text, bare):
        try:
            return model_named(name), ""
        except InputError:
            continue
    match = nearest(bare, packaged_models())
    hint = f"; nearest: {match}" if match else ""
    return None, f"{text!r} is no packaged model (costmodel show models){hint}"


def subject_of(conditions: Mapping[str, Stated]) -> Subject:
    """Return what stated conditions are about."""
    return Subject(conditions, machine_of(conditions))


_NOTHING = Efficiency("", "none", "", {})


def _least(bound: Bound, kind: InstanceKind, gpus: int, what: str) -> Least:
    seconds = bound.time_s / gpus
    if bound.compute_s >= bound.memory_s:
        work, rate = f"{_flop(bound.flop)} at least", f"{_flops(bound.flop / bound.compute_s)}"
    else:
        work, rate = (
            f"{format_si(bound.bytes_moved, 'byte')} at least",
            format_si(kind.memory_peak, "byte/second"),
        )
    return Least(seconds, f"{what}: {work} / ({gpus} x {rate}) = {_s(seconds)}", kind.product_dtype)


def _s(seconds: float) -> str:
    return format_si(seconds, "second")


def _flop(flop: float) -> str:
    return format_si(flop, "flop/second").removesuffix("/s")


def _flops(rate: float) -> str:
    return format_si(rate, "flop/second")
