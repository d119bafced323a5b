"""Defaults of absent fields: what adapters take is what the published classes say, and nothing besides.

tests/class_defaults.csv was read from transformers 5.24.0: the configuration class of each model_type, its
fields, their defaults and __post_init__. Configurations of each type without their optional fields were also
given to the classes themselves: adapters read the fields that a class fills in as the same model. Where a
type has no class, the code of vLLM 0.33.0 is named.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import costmodel.families as families
from costmodel.errors import InputError
from costmodel.families import ADAPTERS, packaged_models, parse_config, read_model
from costmodel.families.defaults import LACKING, WITHOUT_CLASS
from costmodel.inputs.model import Attention, Model

with (Path(__file__).parent / "class_defaults.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


def table(source: str) -> dict[str, dict[str, str]]:
    """Defaults of each model_type whose source starts so."""
    found: dict[str, dict[str, str]] = {}
    for row in ROWS:
        if row["source"].startswith(source):
            found.setdefault(row["model_type"], {})[row["field"]] = row["default"]
    return found


CLASS, WITHOUT_FIELD, BY_ENGINE = table("transformers 5.24.0"), table("no such field"), table("vLLM 0.33.0")

#: Fields of the tables that not every configuration of a type reaches.
OPTIONAL = {
    "falcon": {"multi_query", "new_decoder_architecture", "num_kv_heads"},
    "falcon_h1": {"mamba_d_ssm", "mamba_expand"},
    "llama4_text": {"intermediate_size_mlp", "interleave_moe_layer_step"},
}

#: What a smallest configuration states where its family insists on it.
STATED: dict[str, Any] = {
    "add_full_attention_sink_bias": False,
    "add_swa_attention_sink_bias": True,
    "add_bias_linear": False,
    "add_qkv_bias": True,
    "multi_query_attention": False,
    "rmsnorm": True,
    "post_layer_norm": True,
    "attention_bias": False,
    "bias": False,
    "mlp_bias": False,
    "use_bias": False,
    "use_qkv_bias": False,
    "attn_type_list": [0, 1] * 4,
    "block_configs": [
        {"attention": {"no_op": False, "n_heads_in_group": 8}, "ffn": {"no_op": False, "ffn_mult": 2.625}}
    ]
    * 8,
    "ff_intermediate_size": 96,
    "ffn_dim": 96,
    "ffn_hidden_size": 96,
    "first_k_dense_replace": 1,
    "hidden_size": 1536,
    "num_hidden_layers": 8,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 16,
    "hybrid_layer_pattern": [0, 1] * 4,
    "hybrid_override_pattern": "M*-E" * 2,
    "index_head_dim": 8,
    "index_n_heads": 4,
    "index_topk": 16,
    "intermediate_size": 96,
    "kv_channels": 16,
    "kv_lora_rank": 32,
    "layer_types": ["linear_attention", "full_attention"] * 4,
    "linear_attn_config": {
        "num_heads": 4,
        "head_dim": 8,
        "short_conv_kernel_size": 4,
        "full_attn_layers": [4, 8],
        "kda_layers": [1, 2, 3, 5, 6, 7],
    },
    "mamba_head_dim": 16,
    "mamba_n_heads": 64,
    "mamba_num_heads": 64,
    "max_position_embeddings": 2048,
    "mla_use_nope": True,
    "moe_intermediate_size": 48,
    "moe_layer_freq": [0] + [1] * 7,
    "moe_num_experts": 8,
    "moe_num_shared_experts": 1,
    "moe_shared_expert_intermediate_size": 48,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
    "padded_vocab_size": 1000,
    "partial_rotary_factor": 0.5,
    "position_embedding_type": "rope",
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "shared_expert_intermediate_size": 48,
    "shared_intermediate_size": 64,
    "sliding_window": None,
    "sliding_window_size": 64,
    "ssm_state_size": 16,
    "swa_head_dim": 16,
    "swa_num_attention_heads": 96,
    "swa_num_key_value_heads": 8,
    "swa_v_head_dim": 16,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 1000,
}

#: Second configurations, for fields that only some models of a type need.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in ADAPTERS),
    ("falcon", {"new_decoder_architecture": True}),
    ("falcon_h1", {"mamba_d_ssm": None}),
    ("llama4_text", {"interleave_moe_layer_step": 2}),
]


def smallest(family: str, **fields: Any) -> tuple[dict[str, Any], Model]:
    """Return a configuration that states what the family insists on and no more, and its model."""
    data = {"model_type": family, "torch_dtype": "bfloat16", **fields}
    while True:
        try:
            return data, parse_config(data, "config.json", "m")
        except InputError as error:
            missing = set(re.findall(r"(\w+) is (?:missing|null)", str(error))) & set(STATED) - set(data)
            if not missing:
                raise
            data |= {field: STATED[field] for field in missing}


def filled_in(model: Model, said: str) -> dict[str, str]:
    """Fields whose note ends in ``said``, with what was taken."""
    found = [re.fullmatch(rf"(\w+) absent: (.*?), {said}", note) for note in model.notes]
    return {match[1]: match[2] for match in found if match}


def written(values: dict[str, str], heads: int) -> dict[str, str]:
    """A table as notes write it; "heads": None, which the class makes a KV head a query head."""
    derived = f"{heads}, as many as query heads"
    return {field: derived if value == "heads" else value for field, value in values.items()}


@pytest.mark.parametrize(("family", "fields"), VARIANTS)
def test_absent_fields_are_the_defaults_of_the_class(family: str, fields: dict[str, Any]) -> None:
    _, model = smallest(family, **fields)
    for known, said in (
        (CLASS, rf"the class default of {family} \(transformers 5\.24\)"),
        (WITHOUT_FIELD, rf"{family} has no such field \(transformers 5\.24\)"),
        (BY_ENGINE, r"as \w+\.py of vLLM 0\.33 takes it"),
    ):
        found, expected = filled_in(model, said), written(known.get(family, {}), 96)
        # a field of one configuration may not be needed in another
        assert found.items() <= expected.items()
        assert set(expected) - set(found) <= OPTIONAL.get(family, set())


@pytest.mark.parametrize("name", packaged_models())
def test_packaged_models_take_nothing_that_is_not_in_the_tables(name: str) -> None:
    model = read_model(name)
    for note in model.notes:
        match = re.fullmatch(r"(\w+) absent: (.*?), the class default of (\w+) \(transformers 5\.24\)", note)
        assert ("class default" in note) == bool(match)
        if match:
            heads = max((m.heads for m, _ in model.mixers if isinstance(m, Attention)), default=0)
            assert written(CLASS[match[3]], heads)[match[1]] == match[2]


def test_the_adapters_name_no_other_field() -> None:
    known = {f for known in (CLASS, WITHOUT_FIELD, BY_ENGINE) for fields in known.values() for f in fields}
    known |= {"attn_output_gate", "moe_layers"}  # asked for only where they are stated
    calls = re.compile(r"config\.(?:whole_or|flag|take_default|defaulted|indices)\(\s*\"(\w+)\"")
    folder = Path(families.__file__).parent
    named = {(path.name, field) for path in folder.glob("*.py") for field in calls.findall(path.read_text())}
    assert len(named) > 100
    assert {(path, field) for path, field in named if field not in known} == set()


def test_a_type_without_a_class_has_no_class_default() -> None:
    for family, (_, fields) in WITHOUT_CLASS.items():
        assert family not in CLASS
        assert not family or set(BY_ENGINE.get(family, {})) == fields
    assert {family: set(fields) for family, fields in LACKING.items()} == {
        family: set(fields) for family, fields in WITHOUT_FIELD.items()
    }


@pytest.mark.parametrize(
    ("family", "field"),
    [
        # no class, and no engine's code that gives a default
        ("deepseek", "num_key_value_heads"),
        ("internlm2", "bias"),
        ("kimi_k2", "attention_bias"),
        ("mimo", "attention_bias"),
        ("minimax_m1", "num_key_value_heads"),
        ("phi4mm", "sliding_window"),
        ("bailing_moe", "use_qkv_bias"),
        ("nemotron-nas", "tie_word_embeddings"),
        # num_key_value_heads is None in configuration_nemotron.py and nothing derives it
        ("nemotron", "num_key_value_heads"),
        # Qwen3VLMoeTextConfig says True, Qwen3VLMoeConfig False; Qwen2_5OmniTextConfig True, its thinker False
        ("qwen3_vl_moe_text", "tie_word_embeddings"),
        ("qwen2_5_omni_text", "tie_word_embeddings"),
        ("qwen3_vl_text", "tie_word_embeddings"),
        # vLLM and transformers assume opposites
        ("kimi_linear", "mla_use_nope"),
        ("mimo_v2_flash", "add_swa_attention_sink_bias"),
        ("mimo_v2_flash", "partial_rotary_factor"),
    ],
)
def test_what_must_be_stated(family: str, field: str) -> None:
    data, _ = smallest(family)
    with pytest.raises(InputError, match=f"{field} is (missing|null)"):
        parse_config({key: value for key, value in data.items() if key != field}, "config.json", "m")


def attention(family: str, **fields: Any) -> list[Attention]:
    _, model = smallest(family, **fields)
    blocks = [model.layers[place].blocks[0] for place in model.order]
    return [block for block in blocks if isinstance(block, Attention)]


def test_windows_of_the_class() -> None:
    # Exaone4Config: sliding_window 4096, sliding_window_pattern 4; Dots1Config: 4096 from layer 62 on
    assert [mixer.window for mixer in attention("exaone4")] == ([4096] * 3 + [None]) * 2
    assert [mixer.window for mixer in attention("dots1", num_hidden_layers=64)] == [None] * 62 + [4096] * 2
    assert {mixer.window for mixer in attention("dots1", sliding_window=None)} == {None}


def test_a_text_type_outside_its_wrapper_has_its_own_defaults() -> None:
    assert attention("qwen2_vl_text")[0].kv_heads == 8
    assert attention("glm4v_moe_text")[0].qkv_bias  # Glm4vMoeTextConfig: attention_bias True


def test_glm4v_divides_for_its_heads() -> None:
    # modeling_glm4v.py: head_dim = hidden_size // num_heads, 1536 / 96; that of glm4 is 128
    assert (attention("glm4v_text")[0].head_dim, attention("glm4")[0].head_dim) == (16, 128)


def test_an_mtp_layer_that_the_class_assumes_is_not_counted() -> None:
    # DeepseekV3Config and Glm4MoeConfig: num_nextn_predict_layers 1
    for family in ("deepseek_v3", "glm4_moe"):
        _, model = smallest(family)
        assert "mtp" not in dict(model.extras)
        assert any("no MTP layer is counted (transformers 5.24 assumes 1)" in note for note in model.notes)
