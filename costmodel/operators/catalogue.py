"""The operator kinds, the forms of the book that may predict them, and the parameters that are fitted.

An efficiency file names, for each kind, a form and its parameters; ``calibrate`` fits them, a step and
``validate`` evaluate them. Nothing else knows which formula belongs to which kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..formula import Formula
from ..formulas import decode, gemm, latent, mixed, moe, prefill, whole
from ..formulas import operators as streams
from ..units import Dimension


class Parameter(NamedTuple):
    """A fitted parameter: its dimension, physical range, and where a fit starts; ``choices`` are tried in turn."""

    dimension: Dimension
    low: float
    high: float
    start: float
    choices: tuple[float, ...] = ()


_SHARE = Parameter("1", 0.01, 1.0, 0.7)

PARAMETERS: dict[str, Parameter] = {
    "compute_share": _SHARE,
    "bandwidth_share": _SHARE,
    "quantise_share": Parameter("1", 0.01, 1.0, 0.4),
    "cached_share": Parameter("1", 0.01, 8.0, 1.0),
    "cached_part": Parameter("1", 0.1, 1.0, 0.5),
    "latency": Parameter("second", 0.0, 1e-3, 8e-6),
    "pass_latency": Parameter("second", 0.0, 1e-4, 4e-6),
    "step_latency": Parameter("second", 0.0, 1e-4, 3e-6),
    "block_time": Parameter("second", 0.0, 1e-3, 4e-6),
    "per_token": Parameter("second", 0.0, 1e-6, 1e-9),
    "tile_edge": Parameter("1", 0.0, float(gemm.WIDEST_EDGE), 10.0),
    "tile_overhead_tokens": Parameter("1", 0.0, 1e4, 100.0),
    "decode_overhead_tokens": Parameter("1", 0.0, 1e4, 150.0),
    "empty_tile_tokens": Parameter("1", 0.0, 1e4, 20.0),
    "ramp_bytes": Parameter("byte", 0.0, 1e9, 1e6),
    "token_bytes": Parameter("byte", 0.0, 1e7, 1e5),
    "tile_rows": Parameter("1", 16, 128, 64, (16, 32, 64, 128)),
    "absorbed_tokens": Parameter("token", 0, 1e6, 0),
    "layer_latency": Parameter("second", 0.0, 1e-2, 1e-5),
    "sequence_latency": Parameter("second", 0.0, 1e-2, 1e-4),
    "large_message": Parameter("byte", 0.0, 1e12, 1e7),
    "large_message_rate": Parameter("byte/second", 1.0, 1e15, 1e10),
}


class Form(NamedTuple):
    """A formula of the book and what fills its parameters.

    ``fitted``: to measurements, at most four. ``constants``: of the kernel. ``inherits``: kinds whose fit of the
    same GPU gives what is left. ``stated``: what a file may say besides, no parameter of the formula. ``at_least``:
    kinds whose time alone it cannot undercut, as it does their work, too.
    """

    formula: Formula
    fitted: tuple[str, ...]
    constants: Mapping[str, float] = {}
    inherits: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()
    at_least: tuple[str, ...] = ()


_PREFILL = ("compute_share", "latency", "tile_overhead_tokens", "per_token")
_DECODE = ("bandwidth_share", "latency", "pass_latency", "block_time")
_COLLECTIVE = ("bandwidth_share", "latency", "step_latency", "ramp_bytes")

FORMS: dict[str, Form] = {
    "tiled_gemm": Form(gemm.tiled_gemm_time, ("compute_share", "bandwidth_share", "latency", "tile_edge")),
    "quantised_gemm": Form(
        gemm.quantised_gemm_time, ("compute_share", "bandwidth_share", "latency", "quantise_share")
    ),
    "prefill_fa2": Form(prefill.prefill_attention_time, _PREFILL, {"tile_rows": 64, "packed": 0}),
    "prefill_fa3": Form(prefill.prefill_attention_time, _PREFILL, {"tile_rows": 128, "packed": 1}),
    "decode_fa2": Form(decode.decode_attention_time, _DECODE, {"repacking": 1}),
    "decode_fa3": Form(decode.decode_attention_time, _DECODE, {"repacking": 0}),
    "mixed": Form(
        mixed.mixed_attention_time,
        ("decode_overhead_tokens", "empty_tile_tokens"),
        inherits=("attention_prefill", "attention_decode"),
        at_least=("attention_prefill", "attention_decode"),
    ),
    "latent_prefill": Form(
        latent.latent_prefill_time, ("compute_share", "bandwidth_share"), stated=("absorbed_tokens",)
    ),
    "latent_decode": Form(
        latent.latent_decode_time, ("bandwidth_share", "block_time"), inherits=("attention_prefill",)
    ),
    "plain": Form(streams.plain_kernel_time, (), inherits=("attention_prefill", "attention_decode")),
    "module": Form(latent.module_time, ("latency", "token_bytes")),
    "experts": Form(moe.experts_time, ("compute_share", "bandwidth_share", "latency", "tile_rows")),
    "streaming": Form(streams.streaming_time, ("latency", "bandwidth_share", "cached_share", "cached_part")),
    "host_layers": Form(whole.host_layers_time, ("layer_latency",)),
    "host_sequences": Form(whole.host_sequences_time, ("sequence_latency",)),
    "large_messages": Form(whole.large_message_time, ("large_message", "large_message_rate")),
    "collective": Form(streams.collective_time, _COLLECTIVE),
    "custom_all_reduce": Form(streams.custom_all_reduce_time, _COLLECTIVE),
}


class Kind(NamedTuple):
    """An operator kind: the forms that are tried on measurements, and whether it runs at an 8-bit peak."""

    forms: tuple[str, ...]
    eight_bit: bool = False


KINDS: dict[str, Kind] = {
    "gemm": Kind(("tiled_gemm",)),
    "gemm_fp8": Kind(("quantised_gemm",), eight_bit=True),
    "attention_prefill": Kind(("prefill_fa2", "prefill_fa3")),
    "attention_decode": Kind(("decode_fa2", "decode_fa3")),
    "attention_mixed": Kind(("mixed",)),
    "mla_prefill": Kind(("prefill_fa2", "latent_prefill")),
    "mla_decode": Kind(("latent_decode",)),
    "mla_module": Kind(("module",)),
    "mla_module_decode": Kind(("module",)),
    "mla_decode_fp8_cache": Kind(("latent_decode",)),
    "mla_module_decode_fp8_cache": Kind(("module",)),
    "moe": Kind(("experts",)),
    "moe_fp8": Kind(("experts",), eight_bit=True),
    "norm": Kind(("streaming",)),
    "rope": Kind(("streaming",)),
    "activation": Kind(("streaming",)),
    "add": Kind(("streaming",)),
    "embedding": Kind(("streaming",)),
    "all_reduce": Kind(("collective",)),
    "custom_all_reduce": Kind(("custom_all_reduce",)),
    "all_gather": Kind(("collective",)),
    "reduce_scatter": Kind(("collective",)),
    "all_to_all": Kind(("collective",)),
    "point_to_point": Kind(("collective",)),
}
#: What the kinds of a decode over an fp8 cache end in: its kernels are others.
FP8_CACHE = "_fp8_cache"
#: The generation that FlashAttention 3 was written for.
HOPPER = "hopper"
#: The kind of kernels that were not measured: fits of attention stand in for them.
UNMEASURED = "unmeasured"
#: Kinds that a software stack adds (:mod:`costmodel.inputs.stack`): no kernels, so they are in no table of them.
HOST_LAYERS, HOST_SEQUENCES, LARGE_MESSAGES = "host_layers", "host_sequences", "large_messages"
HOST = (HOST_LAYERS, HOST_SEQUENCES, LARGE_MESSAGES)
#: Kinds that move bytes between GPUs, and kinds that only stream.
COLLECTIVES = (
    "all_reduce", "custom_all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point",
)  # fmt: skip
STREAMS = ("norm", "rope", "activation", "add", "embedding")


def forms_of(kind: str, generation: str) -> tuple[str, ...]:
    """Return the forms to try on measurements of a kind: FlashAttention 3 runs on Hopper alone."""
    return tuple(form for form in KINDS[kind].forms if generation == HOPPER or not form.endswith("_fa3"))
