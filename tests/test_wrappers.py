"""Multimodal wrappers: where their language model lies, what it inherits, which defaults it takes."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import ADAPTERS, parse_config, read_model
from costmodel.families.wrappers import TEXT_DEFAULTS, WRAPPERS
from costmodel.inputs.model import Attention, Model
from costmodel.inputs.parameters import count_parameters

TEXT = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def parse(model_type: str, **fields: Any) -> Model:
    return parse_config({"model_type": model_type, "torch_dtype": "bfloat16", **fields}, "config.json", "m")


def refusal(model_type: str, **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse(model_type, **fields)
    return str(caught.value)


def kv_heads(model: Model) -> int:
    mixer = model.layers[0].mixers[0]
    assert isinstance(mixer, Attention)
    return mixer.kv_heads


def test_nested_sizes_win_over_those_of_the_top() -> None:
    # The top level may describe the vision tower, or an older layout of the file.
    model = parse("llava", hidden_size=64, num_hidden_layers=2, vocab_size=10, text_config=TEXT)
    assert (model.hidden, model.layer_count, model.vocab) == (512, 4, 1000)
    assert model.model_type == "llava"


def test_sizes_at_the_top_serve_where_none_are_nested() -> None:
    # Qwen2-VL and Qwen2.5-VL keep the language model at the top level, beside vision_config.
    model = parse("qwen2_5_vl", **TEXT, tie_word_embeddings=False)
    assert (model.hidden, model.layer_count) == (512, 4)
    text = {"model_type": "qwen2_5_vl_text"}
    partly = parse("qwen2_5_vl", **TEXT, tie_word_embeddings=False, text_config=text)
    assert (partly.hidden, partly.layer_count) == (512, 4)


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_keys_of_the_language_model(key: str) -> None:
    assert parse("internvl_chat", **{key: {**TEXT, "model_type": "qwen2"}}).hidden == 512


def test_thinker_of_qwen_omni() -> None:
    text = {**TEXT, "model_type": "qwen2_5_omni_text", "tie_word_embeddings": False}
    model = parse("qwen2_5_omni", thinker_config={"text_config": text})
    assert (model.hidden, kv_heads(model)) == (512, 2)


def test_what_the_language_model_inherits() -> None:
    quantised = {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["visual"]}
    model = parse("llava", text_config=TEXT, tie_word_embeddings=True, quantization_config=quantised)
    assert (model.tied_embeddings, model.weight_dtype, model.wide_dtype) == (True, "int4", "bf16")
    own = parse(
        "llava",
        text_config={**TEXT, "tie_word_embeddings": False, "dtype": "float16"},
        tie_word_embeddings=True,
    )
    assert (own.tied_embeddings, own.wide_dtype) == (False, "fp16")


def test_quantisation_inside_the_language_model() -> None:
    kimi = read_model("moonshotai/Kimi-K2.5")
    assert (kimi.weight_dtype, kimi.wide_dtype) == ("int4", "bf16")
    assert "quantization_config" in refusal(
        "llava", text_config={**TEXT, "quantization_config": {"quant_method": "fp9"}}
    )


def test_family_of_the_language_model() -> None:
    assert kv_heads(parse("llava", text_config={**TEXT, "model_type": "mistral"})) == 2
    assert "text_config.model_type 'lama'" in refusal("llava", text_config={**TEXT, "model_type": "lama"})
    assert "did you mean 'llama'" in refusal("llava", text_config={**TEXT, "model_type": "lama"})
    assert "llm_config.model_type is missing" in refusal("internvl_chat", llm_config=TEXT)
    assert "text_config is 3; expected the object" in refusal("llava", text_config=3)
    assert "did you mean 'llava'" in refusal("lava", text_config=TEXT)


@pytest.mark.parametrize(
    ("wrapper", "expected"), [("qwen2_vl", 8), ("qwen2_5_vl", 8), ("qwen2_5_omni", 4), ("qwen3_vl_moe", 16)]
)
def test_class_defaults_of_a_text_type_are_its_own(wrapper: str, expected: int) -> None:
    # transformers 5.24: qwen2 has 32 KV heads by default, qwen2_vl_text 8, qwen2_5_omni_text 4.
    text = {**TEXT, "num_attention_heads": 32, "hidden_size": 2048, "tie_word_embeddings": False}
    del text["num_key_value_heads"]
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
    model = parse(wrapper, text_config={**text, **(experts if "moe" in wrapper else {})})
    assert kv_heads(model) == expected
    assert any(f"num_key_value_heads absent: {expected}" in note for note in model.notes)


def test_missing_sizes_are_not_made_up() -> None:
    text = {key: value for key, value in TEXT.items() if key != "num_attention_heads"}
    assert "text_config.num_attention_heads is missing" in refusal("qwen3_vl", text_config=text)


def test_tables_agree() -> None:
    assert not set(WRAPPERS) & set(ADAPTERS)
    assert set(TEXT_DEFAULTS) <= set(ADAPTERS)
    missing = {inner for inner in WRAPPERS.values() if inner and inner not in ADAPTERS}
    assert missing <= {"gemma3n_text"}


def test_sizes_that_published_llava_files_leave_to_their_class() -> None:
    # llava-hf/llava-1.5-7b-hf states vocabulary, length and dtype: LlamaConfig's 32 layers of 4,096 and 11,008.
    # 32,064 x 4,096 twice, 32 x (4 x 4,096^2 + 3 x 4,096 x 11,008 + 2 x 4,096), 4,096: 6,738,939,904
    text = {
        "model_type": "llama",
        "vocab_size": 32064,
        "max_position_embeddings": 4096,
        "torch_dtype": "float16",
    }
    model = parse_config({"model_type": "llava", "text_config": text}, "config.json", "llava")
    assert count_parameters(model).total_parameters == 6_738_939_904
    assert any("hidden_size absent: 4096, the class default of llama" in note for note in model.notes)


@pytest.mark.parametrize("stated", ["hidden_size", "num_hidden_layers", "num_attention_heads"])
def test_sizes_are_not_filled_in_beside_stated_ones(stated: str) -> None:
    text = {"model_type": "llama", "vocab_size": 32064, "torch_dtype": "float16", stated: 40}
    with pytest.raises(InputError, match="is missing"):
        parse_config({"model_type": "llava", "text_config": text}, "config.json", "llava")


def test_sizes_are_not_filled_in_outside_a_wrapper_of_transformers() -> None:
    text = {"model_type": "llama", "vocab_size": 32064, "torch_dtype": "float16"}
    with pytest.raises(InputError, match="hidden_size is missing"):
        parse_config(text, "config.json", "llama")
    with pytest.raises(InputError, match="hidden_size is missing"):
        parse_config({"model_type": "idefics3", "text_config": text}, "config.json", "idefics3")
