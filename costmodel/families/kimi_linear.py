"""Family kimi_linear: Kimi delta attention, latent attention without rotary embedding, DeepSeek's experts."""

from __future__ import annotations

from ..inputs.model import Dense, LatentAttention, Model, Recurrent
from .common import Sizes, assemble, first_dense, paired, read_experts, read_sizes
from .config import Config
from .recurrent import kimi_delta, refuse_windows

NESTED = "linear_attn_config"


def kimi_linear(config: Config) -> Model:
    """Read model_type kimi_linear; ``linear_attn_config`` names the layers of either kind, counted from 1."""
    sizes = read_sizes(config)
    refuse_windows(config)
    mixers = _mixers(config, sizes)
    width = config.whole("moe_intermediate_size")
    experts = read_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_width=config.whole("n_shared_experts", least=0) * width,
        router_bias=True,
    )
    ffns = first_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    mtp = config.optional("num_nextn_predict_layers", least=0) or 0
    config.check(mtp == 0, "num_nextn_predict_layers is not 0; MTP layers of kimi_linear are not known")
    tables = () if config.stated_flag("mla_use_nope") else None  # vLLM and transformers assume opposites
    return assemble(config, sizes, paired(mixers, ffns), rotary_dims=tables)


def _mixers(config: Config, sizes: Sizes) -> list[LatentAttention | Recurrent]:
    full = LatentAttention(
        heads=sizes.heads,
        q_rank=config.optional("q_lora_rank"),
        kv_rank=config.whole("kv_lora_rank"),
        nope_dim=config.whole("qk_nope_head_dim"),
        rope_dim=config.whole("qk_rope_head_dim"),
        v_dim=config.whole("v_head_dim"),
    )
    stated = None if config.null(NESTED) else config.data[NESTED]
    if not isinstance(stated, dict):
        config.check(False, f"{NESTED} is missing; expected an object with the sizes of linear attention")
        return [full] * sizes.layers
    inner = Config(stated, config.where, config.name, inside=NESTED)
    linear = kimi_delta(
        sizes.hidden,
        inner.whole("num_heads"),
        inner.whole("head_dim"),
        inner.whole("short_conv_kernel_size"),
    )
    attends = inner.indices("full_attn_layers", sizes.layers + 1)
    linears = inner.indices("kda_layers", sizes.layers + 1)
    inner.check(
        sorted(attends + linears) == list(range(1, sizes.layers + 1)),
        f"{NESTED}.full_attn_layers and {NESTED}.kda_layers do not name each of the layers 1 to "
        f"{sizes.layers:,} once",
        "full_attn_layers",
        "kda_layers",
    )
    config.problems += inner.problems
    return [full if index in attends else linear for index in range(1, sizes.layers + 1)]
