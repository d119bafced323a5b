"""Who states the default of an absent field: the published class of a model_type, or an engine's code.

Where nobody does, or where classes disagree, a file must state the field. The values themselves stand in the
adapters; tests/test_class_defaults.py holds what the classes of transformers 5.24.0 say.
"""

from __future__ import annotations

CLASS_DEFAULT = "the class default of {} (transformers 5.24)"
NO_FIELD = "{} has no such field (transformers 5.24)"

_TIED = frozenset({"tie_word_embeddings"})
_BAILING = (
    "as bailing_moe.py of vLLM 0.33 takes it",
    frozenset({"use_qk_norm", "moe_router_enable_expert_bias", "tie_word_embeddings"}),
)
_NOTHING: tuple[str, frozenset[str]] = ("", frozenset())

#: Model types that transformers 5.24 has no class of: what an engine's code says of absent fields, and of which.
#: The unnamed one is an object inside a configuration: that of its quantisation, or of a layer.
WITHOUT_CLASS: dict[str, tuple[str, frozenset[str]]] = {
    "": (
        "the class default of its method (transformers 5.24, quantization_config.py)",
        frozenset({"desc_act", "sym", "zero_point"}),
    ),
    "bailing_moe": _BAILING,
    "bailing_moe_v2": _BAILING,
    "chatglm": _NOTHING,
    "deepseek": _NOTHING,
    "internlm2": _NOTHING,
    "kimi_k2": _NOTHING,
    "mimo": _NOTHING,
    "minimax_m1": _NOTHING,
    "minimax_text_01": _NOTHING,
    "nemotron-nas": (
        "as nemotron_nas.py of vLLM 0.33 takes it",
        frozenset({"attention_bias", "mlp_bias"}),
    ),
    "phi3small": _NOTHING,
    "phi4mm": _NOTHING,
}

#: Fields that the class lacks although the adapter, shared with others, asks for them: its model has one form.
LACKING: dict[str, frozenset[str]] = {
    "glm4_moe_lite": frozenset({"first_k_dense_replace"}),
    "glm4v_moe_text": frozenset({"use_qk_norm"}),
    "glm4v_text": frozenset({"attention_bias"}),
    "gpt2": frozenset({"num_key_value_heads"}),
    "gpt_neox": frozenset({"num_key_value_heads"}),
    "qwen3_vl_moe_text": frozenset({"use_sliding_window"}),
    "qwen3_vl_text": frozenset({"use_sliding_window"}),
}

#: Fields that must be stated: the class gives None, has no such field, or its wrapper's class says otherwise.
TO_STATE: dict[str, frozenset[str]] = {
    "glm4v_text": _TIED,
    "nemotron": frozenset({"num_key_value_heads"}),
    "qwen2_5_omni_text": _TIED,
    "qwen2_5_vl_text": _TIED,
    "qwen2_vl_text": _TIED,
    "qwen3_omni_moe_text": _TIED,
    "qwen3_vl_moe_text": _TIED,
    "qwen3_vl_text": _TIED,
}


def origin(model_type: str, field: str) -> str | None:
    """Say where the default of an absent field comes from; None: it has none and must be stated."""
    if model_type in WITHOUT_CLASS:
        said, fields = WITHOUT_CLASS[model_type]
        return said if field in fields else None
    if field in TO_STATE.get(model_type, ()):
        return None
    return (NO_FIELD if field in LACKING.get(model_type, ()) else CLASS_DEFAULT).format(model_type)
