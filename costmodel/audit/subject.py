"""What a record is about, as far as it can be computed with: the model, the GPUs, the link."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from typing import ParamSpec, TypeVar

from ..dtypes import SPELLINGS, cache_dtype
from ..errors import InputError, nearest
from ..families import packaged_models
from ..families.meant import model_meant
from ..families.named import model_named
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu
from ..inputs.model import Model
from ..inputs.parameters import count_parameters, loaded_dtype, weight_bytes
from ..memory.kv import kv_bytes
from ..memory.parallelism import Parallelism
from ..records import Stated
from ..records.dtypes import dtype_meant
from ..records.flags import OWN_CHOICE
from ..records.machine import Machine, machine_of
from ..serving.bound import Bound, step_bound
from ..serving.instance import InstanceKind, default_cache_dtype
from ..serving.work import Chunk
from . import words
from .plain import FOUR_BITS, Plain, plain_of, sized

#: Narrow dtypes that an engine may load a checkpoint in without the report saying so, the likeliest first.
NARROW = ("fp8", "int8", "fp4")
_DTYPE_WORDS = re.compile(
    r"(?i)(?:[\s_,.(-]*\b(?:bf16|fp16|fp8|fp4|int8|int4|nvfp4|mxfp4|w[48]a(?:16|8|4)|awq|gptq|gguf|e4m3|[48][\s-]?bits?"
    r"|i?q[2-8]_\w+|g(?:32|64|128)|dynamic|quantized|marlin)\)*)+$"
)


class Unknown(Exception):
    """A figure cannot be computed: why."""


_Asked = ParamSpec("_Asked")
_Told = TypeVar("_Told")


def _or_unknown(method: Callable[_Asked, _Told]) -> Callable[_Asked, _Told]:
    """Turn what a GPU or a model does not state into :class:`Unknown`."""

    @wraps(method)
    def asked(*args: _Asked.args, **more: _Asked.kwargs) -> _Told:
        try:
            return method(*args, **more)
        except InputError as error:
            raise Unknown(str(error)) from None

    return asked


@dataclass(frozen=True)
class Least:
    """What physics needs at least, and how that was counted; ``bytes_moved``: of all GPUs."""

    seconds: float
    arithmetic: str
    dtype: str
    bytes_moved: float = 0.0


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
    def said(self) -> tuple[str, ...]:
        """How the words for the model and the machine were read."""
        try:
            read, name = self.model.name, str(self.conditions["model"])
        except Unknown:
            return self.machine.said
        return (*([] if read in (name, None) else [f"{name!r} is read as {read}"]), *self.machine.said)

    @property
    def gpu(self) -> Gpu:
        """The GPU, where it is stated and known."""
        if self.machine.gpu is None:
            raise Unknown(str(self.machine.reason))
        return self.machine.gpu

    @cached_property
    def decoding(self) -> Subject:
        """The same on the GPUs that decode, where a report names those of each side."""
        return Subject(self.conditions, self.machine.decoding) if self.machine.decoding else self

    @property
    def sides(self) -> tuple[Subject, ...]:
        """The same on the GPUs of each side; itself where a report does not tell them apart."""
        if self.machine.decoding is None:
            return (self,)
        first = self.machine.per_prefill
        alone = replace(self.machine, gpus=first, per_decode=first, decoding=None)
        return Subject(self.conditions, alone), self.decoding

    @property
    def stated_dtype(self) -> str | None:
        """Dtype of the weights as the report states it; None: it does not."""
        stated = str(self.conditions.get("dtype", "")).strip().lower()
        found = _DTYPE_WORDS.search(str(self.conditions.get("model", "")))
        word = dtype_meant(stated) or (dtype_meant(found[0].strip(" _,.(-")) if found else None)
        if word is None and stated not in OWN_CHOICE:
            word = stated
        return self._own_four_bits if word in FOUR_BITS and self._own_four_bits else word

    @property
    def _own_four_bits(self) -> str | None:
        """The checkpoint's dtype where it has four bits: whatever a report calls them, they are these."""
        try:
            return self.model.weight_dtype if self.model.weight_dtype in FOUR_BITS else None
        except Unknown:
            return None

    def kind(self, dtype: str | None = None) -> InstanceKind:
        """The model on one GPU, of which only physics is asked: no step time can be had of it."""
        wanted = dtype or self.stated_dtype
        weights = loaded_dtype(self.model) if wanted in (None, self.model.weight_dtype) else str(wanted)
        cache = str(self.conditions.get("kv_dtype", "")).lower()
        stored = SPELLINGS.get(cache, cache) if cache and cache != "auto" else ""
        try:
            kv_dtype = stored or default_cache_dtype(self.model, weights)
            kind = InstanceKind(self.model, self.gpu, Parallelism(), weights, kv_dtype, _NOTHING)
            kind = replace(kind, gpu=_with_peak(self.gpu, kind))
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

    @_or_unknown
    def prefill(self, tokens: int, cached: int, gpus: int, dtype: str | None = None) -> Least:
        """Least time of a prompt of ``tokens``, ``cached`` of them found in a cache, on so many GPUs."""
        plain = self.plain
        if plain is not None:
            flop, peak = 2 * plain.parameters * (tokens - cached), self.peak(plain.product_of(self.gpu))
            work = f"2 x {plain.parameters:.4g} parameters {plain.source} x {tokens - cached:,} tokens"
            said = f"{work} / ({gpus} x {_flops(peak)})"
            return Least(flop / peak / gpus, f"{said} = {_s(flop / peak / gpus)}", plain.source)
        kind = self.kind(dtype)
        bound = step_bound(kind, (Chunk(tokens - cached, cached),), 1, 0, 0)
        return _least(bound, kind, gpus, f"{tokens - cached:,} prompt tokens")

    @_or_unknown
    def decode(self, batch: float, context: float, gpus: int, dtype: str | None = None) -> Least:
        """Least time of a decode step of ``batch`` sequences over ``context`` cached tokens in all."""
        if self.machine.decoding is not None:
            return self.decoding.decode(batch, context, gpus, dtype)
        plain = self.plain
        if plain is not None:
            rate, bytes_ = self.bandwidth, plain.parameters * plain.bytes_each
            said = f"{plain.parameters:.4g} parameters {plain.source} x {plain.bytes_each:g} B"
            if context and self._cached_each is not None:
                bytes_ += self._cached_each * context
                said += f" and {words.size(self._cached_each * context)} of KV"
            time = bytes_ / (rate * gpus)
            return Least(time, f"{said} / ({gpus} x {words.rate(rate)}) = {_s(time)}", plain.source)
        kind = self.kind(dtype)
        bound = step_bound(kind, (), 0, batch, context)
        return _least(bound, kind, gpus, f"a decode step of {batch:g} over {context:,.0f} cached tokens")

    @_or_unknown
    def mixed(
        self, chunks: Sequence[Chunk], batch: float, context: float, gpus: int, dtype: str | None = None
    ) -> Least:
        """Least time of a step of decodes and chunks of prompts."""
        kind = self.kind(dtype)
        bound = step_bound(kind, chunks, 0, batch, context)
        tokens = sum(chunk.tokens for chunk in chunks)
        return _least(bound, kind, gpus, f"{tokens:,} prompt tokens beside {batch:g} decodes")

    @cached_property
    def plain(self) -> Plain | None:
        """The model as no more than its size: where it is not packaged, or in a dtype that no engine makes of it."""
        try:
            _ = self.model
        except Unknown:
            found = plain_of(self.conditions, self.stated_dtype)
            if found is None:
                raise
            _ = self.gpu
            return found
        if self.stated_dtype not in FOUR_BITS:
            return None
        try:
            _ = self.kind()
            return None
        except Unknown:
            active = count_parameters(self.model).active_parameters
            return sized(float(active), self.stated_dtype, "of the model")

    @property
    def _cached_each(self) -> float | None:
        """KV bytes that a decode reads of a cached token, where all of them are read."""
        try:
            return (self.kv_bytes(8192) - self.kv_bytes(4096)) / 4096
        except Unknown:
            return None

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
        if self.stated_dtype in FOUR_BITS and self.stated_dtype != self.model.weight_dtype:
            raise Unknown(
                f"how the {self.stated_dtype} weights of {self.model.name} are stored is not packaged"
            )
        try:
            return float(weight_bytes(self.model, self.stated_dtype))
        except InputError as error:
            raise Unknown(str(error)) from None

    @property
    def parameters(self) -> int:
        """All parameters of the model."""
        return count_parameters(self.model).total_parameters

    @_or_unknown
    def peak(self, dtype: str = "bf16") -> float:
        """Peak rate of one GPU, FLOP/s."""
        return self.gpu.peak_flop_per_s(dtype)

    @property
    @_or_unknown
    def bandwidth(self) -> float:
        """Memory bandwidth of one GPU, byte/s."""
        return self.gpu.memory_bytes_per_s

    @property
    @_or_unknown
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
    meant = model_meant(text) or model_meant(bare)
    if meant is not None:
        return model_named(meant), ""
    match = nearest(bare, packaged_models())
    hint = f"; nearest: {match}" if match else ""
    return None, f"{text!r} is no packaged model (costmodel show models){hint}"


def subject_of(conditions: Mapping[str, Stated]) -> Subject:
    """Return what stated conditions are about."""
    return Subject(conditions, machine_of(conditions))


def _with_peak(gpu: Gpu, kind: InstanceKind) -> Gpu:
    """A GPU with a peak for activations: where it states none, that of the narrower products, which none exceeds."""
    missing, stated = f"peak_{kind.activation_dtype}", f"peak_{kind.product_dtype}"
    if missing in gpu.values or stated not in gpu.values:
        return gpu
    return replace(gpu, values={**gpu.values, missing: gpu.values[stated]})


_NOTHING = Efficiency("", "none", "", {})


def _least(bound: Bound, kind: InstanceKind, gpus: int, what: str) -> Least:
    seconds = bound.time_s / gpus
    if bound.compute_s >= bound.memory_s:
        work, rate = f"{_flop(bound.flop)} at least", f"{_flops(bound.flop / bound.compute_s)}"
    else:
        work, rate = (
            f"{words.size(bound.bytes_moved)} at least",
            words.rate(kind.memory_peak),
        )
    return Least(
        seconds, f"{what}: {work} / ({gpus} x {rate}) = {_s(seconds)}", kind.product_dtype, bound.bytes_moved
    )


def _s(seconds: float) -> str:
    return words.seconds(seconds)


def _flop(flop: float) -> str:
    return words.flops(flop).removesuffix("/s")


def _flops(rate: float) -> str:
    return words.flops(rate)
