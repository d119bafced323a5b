"""Fields that no adapter may pass over in silence: where a model_type used them, the count would be another.

A configuration of llama with a ``kv_lora_rank``, of granite with a window or of mixtral with shared experts
contradicts its model_type: to read it as if the field were not there gives a plausible wrong number.
"""

from __future__ import annotations

from .config import ALIASES, Config, shown

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")

#: Field -> the largest number that changes nothing.
SIZES = {
    "attention_chunk_size": 0,
    "index_topk": 0,
    "kv_lora_rank": 0,
    "linear_num_value_heads": 0,
    "mamba_d_state": 0,
    "num_kv_shared_layers": 0,
    "sliding_window": 0,
    "ssm_state_size": 0,
    **dict.fromkeys(EXPERT_COUNTS, 1),
}

#: Those that only matter where there are experts.
OF_EXPERTS = {
    "decoder_sparse_step": 1,
    "first_k_dense_replace": 0,
    "interleave_moe_layer_step": 1,
    "moe_intermediate_size": 0,
    "moe_layer_freq": 1,
    "n_shared_experts": 0,
    "shared_expert_intermediate_size": 0,
}

#: Flags, lists and objects.
OTHERS = ("attention_bias", "hybrid_override_pattern", "linear_attn_config", "mlp_bias", "mlp_only_layers")
OTHER_LAYERS = {"sliding_attention", "chunked_attention", "linear_attention", "mamba"}


def refuse_ignored(config: Config) -> None:
    """Record each field that is in force although the adapter did not ask for it.

    Where a user insists on a family (``config.insisted``) a note says so instead.
    """
    asked = _under_any_name(config.asked)
    routed = asked.intersection(EXPERT_COUNTS)
    if "use_sliding_window" in asked or _no_window(config):
        asked = asked | {"sliding_window"}
    found = [field for field, least in SIZES.items() if field not in asked and _above(config, field, least)]
    if routed:
        found += [f for f, least in OF_EXPERTS.items() if f not in asked and _above(config, f, least)]
        found = [f for f in found if f != "moe_intermediate_size" or _differs(config)]
    found += [field for field in OTHERS if field not in asked and _holds(config, field)]
    types = config.data.get("layer_types")
    if "layer_types" not in asked and isinstance(types, list) and OTHER_LAYERS.intersection(map(str, types)):
        found.append("layer_types")
    for field in _named_once(config, found):
        said = f"{field} is {shown(config.data[field])}, but {config.model_type} does not use that field"
        if config.insisted:
            config.notes.append(f"{said}: ignored")
        else:
            config.check(False, f"{said}; expected another model_type, or none of it")


def _under_any_name(asked: set[str]) -> set[str]:
    return asked | {field for field, others in ALIASES.items() if asked.intersection(others)}


def _above(config: Config, field: str, least: int) -> bool:
    value = config.data.get(field)
    return isinstance(value, int) and not isinstance(value, bool) and value > least


def _holds(config: Config, field: str) -> bool:
    value = config.data.get(field)
    return value is True or (isinstance(value, (str, list, dict)) and bool(value))


def _differs(config: Config) -> bool:
    return config.data["moe_intermediate_size"] != config.data.get("intermediate_size")


def _no_window(config: Config) -> bool:
    """Whether a window is switched off, or so long that no sequence outgrows it."""
    window, longest = config.data.get("sliding_window"), config.data.get("max_position_embeddings")
    numbers = isinstance(window, int) and isinstance(longest, int)
    return config.data.get("use_sliding_window") is False or bool(numbers and window >= longest)  # type: ignore[operator]


def _named_once(config: Config, fields: list[str]) -> list[str]:
    """Fields as the file names them: of several names for one thing that which it has."""
    return sorted({config.stated_name(field) for field in fields} & set(config.data))
