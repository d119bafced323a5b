"""Families phi (Phi-1, 1.5, 2), phi3 (Phi-3, 3.5-mini, 4, 4-mini), phi4mm, phi3small and phimoe (Phi-3.5-MoE)."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, Model
from .common import Sizes, assemble, paired, read_attention, read_experts, read_sizes, windowed
from .config import Config
from .rope import rotary_dim

PARTIAL_ROTARY = 0.5


def phi(config: Config) -> Model:
    """Read model_type phi: one LayerNorm a layer, biases everywhere, also on the head.

    The bias of the head is counted with the last norm. Half of each head rotates unless the configuration
    says otherwise. Source: transformers 5.24, modeling_phi.py.
    """
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, None, qkv_bias=True, out_bias=True)
    if config.flag("qk_layernorm", False):
        mixer = replace(mixer, norm_parameters=4 * mixer.head_dim)
    if config.null("partial_rotary_factor"):
        config.data = {**config.data, "partial_rotary_factor": PARTIAL_ROTARY}
    return assemble(
        config,
        sizes,
        [(mixer, Dense(config.whole("intermediate_size"), matrices=2, bias=True))] * sizes.layers,
        norm_parameters=2 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden + sizes.vocab,
        rotary_dims=rotary_dim(config, [mixer]),
    )


def phi3(config: Config) -> Model:
    """Read model_type phi3: as llama, with a window of ``sliding_window`` in every layer.

    Source: transformers 5.24, modeling_phi3.py, which knows no biases.
    """
    sizes = read_sizes(config)
    _refuse(config, "attention_bias", "mlp_bias", "lm_head_bias")
    mixer = read_attention(config, sizes, None)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(config, sizes, paired(windowed(mixer, _windows(config, sizes)), [ffn] * sizes.layers))


def phi4mm(config: Config) -> Model:
    """Read model_type phi4mm (Phi-4-multimodal): the language model of phi3, its fields at the top level.

    Neither the towers in ``embd_layer`` nor the LoRA weights of images and speech are counted.
    """
    model = phi3(config)
    left = "embd_layer, vision_lora and speech_lora: towers and LoRA weights are not counted"
    return replace(model, notes=(*model.notes, left))


def phi3small(config: Config) -> Model:
    """Read model_type phi3small: LayerNorms and biases everywhere, gegelu with two matrices, a tied head.

    All layers cache every token; those with blocksparse attention are counted as if they read all of it.
    Source: the published total of Phi-3-small-128k-instruct. vLLM dropped the family after 0.9.2.
    """
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, None, qkv_bias=True, out_bias=True)
    gate = Dense(config.whole("ff_intermediate_size"), bias=True)
    every = config.optional("dense_attention_every_n_layers")
    if every != 1:
        config.notes.append("blocksparse attention: its reads are counted as those of full attention")
    if config.absent("tie_word_embeddings"):
        config.data = {**config.data, "tie_word_embeddings": True}
        config.notes.append(
            "tie_word_embeddings absent: true, as the published total of Phi-3-small-128k says"
        )
    return assemble(
        config,
        sizes,
        [(mixer, gate)] * sizes.layers,
        norm_parameters=4 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden,
    )


def phimoe(config: Config) -> Model:
    """Read model_type phimoe: LayerNorms, experts as wide as ``intermediate_size`` in every layer.

    A bias of the head is counted with the last norm. Source: transformers 5.24, modeling_phimoe.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, 8, qkv_bias=bias, out_bias=bias)
    experts = read_experts(config, "num_local_experts", "intermediate_size")
    head_bias = sizes.vocab if config.flag("lm_head_bias", False) else 0
    return assemble(
        config,
        sizes,
        paired(windowed(mixer, _windows(config, sizes)), [experts] * sizes.layers),
        norm_parameters=4 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden + head_bias,
    )


def _windows(config: Config, sizes: Sizes) -> list[int | None]:
    """``sliding_window`` in every layer; one that no sequence outgrows (Phi-4-mini, Phi-3.5-MoE) is none."""
    if config.absent("sliding_window"):
        config.defaulted("sliding_window", "none")
    window, longest = config.optional("sliding_window"), config.optional("max_position_embeddings")
    if window is not None and longest is not None and window >= longest:
        config.notes.append(
            f"sliding_window {window:,} is no shorter than max_position_embeddings: no window"
        )
        window = None
    return [window] * sizes.layers


def _refuse(config: Config, *fields: str) -> None:
    for field in fields:
        config.check(
            config.data.get(field) is not True,
            f"{field} is true; {config.model_type} has no such bias",
            field,
        )
