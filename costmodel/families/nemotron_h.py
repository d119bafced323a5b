"""Family nemotron_h: one block a layer (Mamba-2, attention, experts or a plain feed-forward), one norm each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..inputs.model import Block, Dense, Experts, Model, Recurrent
from .common import Sizes, assemble, layer_beside, read_attention, read_experts, read_sizes, with_mtp
from .config import Config, shown
from .recurrent import mamba2, read_state_dtype, refuse_windows

MODULE = "mixer"
LETTERS = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "moe": "E",
    "mlp": "-",
}


def nemotron_h(config: Config) -> Model:
    """Read model_type nemotron_h; ``hybrid_override_pattern`` or ``layers_block_type`` names the layers.

    Source: transformers 5.24, configuration_nemotron_h.py. Its MTP layers are blocks with a norm each.
    """
    config.knows("hybrid_override_pattern", "ssm_state_size", "n_routed_experts", "n_shared_experts")
    config.knows("moe_intermediate_size", "attention_bias", "mlp_bias")
    pattern = _pattern(config, "hybrid_override_pattern", "layers_block_type")
    config.check(bool(pattern), "hybrid_override_pattern is missing; expected a letter a layer, as in M*-E")
    sizes = read_sizes(config, layers=len(pattern))
    _check_layers(config, len(pattern))
    refuse_windows(config)
    mtp_layers = config.optional("num_nextn_predict_layers", least=0, most=100) or 0
    mtp = _pattern(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type") or "*E"
    readers: dict[str, Callable[[Config, Sizes], Block]] = {
        "M": _mamba,
        "*": _attention,
        "E": _experts,
        "-": _dense,
    }
    used = pattern + (mtp if mtp_layers else "")
    blocks = {letter: read(config, sizes) for letter, read in readers.items() if letter in used}
    layers: list[tuple[Block, ...]] = [(blocks[letter],) for letter in pattern]
    model = assemble(config, sizes, layers, norm_parameters=sizes.hidden, rotary_dims=())
    if not mtp_layers:
        return model
    beside = layer_beside(config, model, tuple(blocks[letter] for letter in mtp), count=mtp_layers)
    return with_mtp(model, replace(beside, norm_parameters=len(mtp) * sizes.hidden), copies=False)


def _pattern(config: Config, letters_field: str, words_field: str) -> str:
    """Letter of each layer from either field; empty where both are absent."""
    letters, words = config.data.get(letters_field), config.data.get(words_field)
    found = []
    if letters is not None:
        good = isinstance(letters, str) and letters != "" and set(letters) <= set(LETTERS.values())
        config.check(good, f"{letters_field} is {shown(letters)}; expected letters out of M * - E")
        found.append(letters if good and isinstance(letters, str) else "")
    if words is not None:
        count = len(words) if isinstance(words, list) and words else 1
        known = config.words(words_field, tuple(LETTERS), count) or []
        found.append("".join(LETTERS[word] for word in known))
    config.check(
        len(set(found)) < 2 or "" in found,
        f"{letters_field} and {words_field} differ; expected the same layers of both",
        letters_field,
        words_field,
    )
    return next((pattern for pattern in found if pattern), "")


def _check_layers(config: Config, count: int) -> None:
    stated = config.optional("num_hidden_layers")
    config.check(
        stated in (None, count) or not count,
        f"num_hidden_layers is {stated} but the pattern of layers names {count:,}; expected as many",
        "num_hidden_layers",
        "layers_block_type",
    )


def _mamba(config: Config, sizes: Sizes) -> Recurrent:
    if config.absent("mamba_ssm_cache_dtype"):
        config.defaulted("mamba_ssm_cache_dtype", "float32")
    bias = config.flag("use_bias", False)
    config.check(
        bias or config.data.get("mamba_proj_bias") is not True,
        "mamba_proj_bias is true but use_bias, which decides, is not",
        "use_bias",
    )
    return mamba2(
        sizes.hidden,
        config.whole("mamba_num_heads"),
        config.whole("mamba_head_dim"),
        config.whole_or("n_groups", 8),
        config.whole("ssm_state_size"),
        config.whole_or("conv_kernel", 4),
        conv_bias=config.flag("use_conv_bias", True),
        proj_bias=bias,
        state_dtype=read_state_dtype(config, "mamba_ssm_cache_dtype", "fp32"),
        name=MODULE,
    )


def _attention(config: Config, sizes: Sizes) -> Block:
    config.check(
        config.data.get("attention_bias") is not True,
        "attention_bias is true; transformers and engines build no such bias for nemotron_h",
        "attention_bias",
    )
    return read_attention(config, sizes, 8, head_dim_default=128)


def _dense(config: Config, sizes: Sizes) -> Dense:
    return Dense(config.whole("intermediate_size"), 2, config.flag("mlp_bias", False), MODULE)


def _experts(config: Config, sizes: Sizes) -> Experts:
    """Experts of two matrices, in a latent width where one is stated; the shared one sees the full width."""
    config.check(
        config.data.get("n_shared_experts", 1) == 1,
        f"n_shared_experts is {shown(config.data.get('n_shared_experts'))}; only one is modelled",
        "n_shared_experts",
    )
    experts = read_experts(
        config,
        "n_routed_experts",
        "moe_intermediate_size",
        shared_width=config.whole("moe_shared_expert_intermediate_size"),
        router_bias=True,
    )
    return replace(
        experts,
        matrices=2,
        bias=config.flag("mlp_bias", False),
        latent=config.optional("moe_latent_size"),
        module=MODULE,
    )
