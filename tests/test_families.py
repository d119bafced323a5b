"""Reading configurations: what is accepted, what defaults are noted, and how a newcomer's errors read."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import ADAPTERS, packaged_models, parse_config, read_model
from costmodel.inputs.model import Attention, Experts, Model

TEN_FAMILIES = {
    "deepseek_v2": "deepseek-ai--DeepSeek-V2-Lite",
    "deepseek_v3": "deepseek-ai--DeepSeek-V3",
    "llama": "meta-llama--Llama-3.1-8B",
    "mistral": "mistralai--Mistral-7B-v0.1",
    "mixtral": "mistralai--Mixtral-8x7B-v0.1",
    "opt": "facebook--opt-13b",
    "qwen2": "Qwen--Qwen2.5-7B",
    "qwen2_moe": "Qwen--Qwen1.5-MoE-A2.7B",
    "qwen3": "Qwen--Qwen3-8B",
    "qwen3_moe": "Qwen--Qwen3-30B-A3B",
}


def fields(model_type: str, **changes: Any) -> dict[str, Any]:
    """A packaged configuration with some fields changed; a change to ... drops the field."""
    text = files("costmodel._models").joinpath(f"{TEN_FAMILIES[model_type]}.json").read_text("utf-8")
    data = json.loads(text) | changes
    return {key: value for key, value in data.items() if value is not ...}


def parse(model_type: str, **changes: Any) -> Model:
    return parse_config(fields(model_type, **changes), "config.json", "m")


def refusal(model_type: str, **changes: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(model_type, **changes)
    return caught.value


def windows(model: Model) -> dict[int | None, int]:
    counts: dict[int | None, int] = {}
    for layer in model.layers:
        counts[layer.mixers[0].window] = counts.get(layer.mixers[0].window, 0) + layer.count
    return counts


def attention(model: Model) -> Attention:
    mixer = model.layers[0].mixers[0]
    assert isinstance(mixer, Attention)
    return mixer


def test_every_family_reads_the_model_packaged_for_it() -> None:
    for model_type in TEN_FAMILIES:
        model = parse(model_type)
        assert model.model_type == model_type
        assert model.layer_count == fields(model_type)["num_hidden_layers"]


@pytest.mark.parametrize("model_type", sorted(ADAPTERS))
def test_every_adapter_names_what_is_missing(model_type: str) -> None:
    with pytest.raises(InputError, match="is missing"):
        parse_config({"model_type": model_type}, "config.json", "m")


def test_every_packaged_model_is_readable_and_states_its_source() -> None:
    assert len(packaged_models()) >= 30
    for name in packaged_models():
        model = read_model(name)
        assert model.name == name
        assert "read 20" in model.source


@pytest.mark.parametrize(
    "text", ["deepseek-ai/DeepSeek-V2-Lite", "DEEPSEEK-AI/deepseek-v2-lite", "deepseek-v2-lite"]
)
def test_packaged_names(text: str) -> None:
    model = read_model(text)
    assert model.name == "deepseek-ai/DeepSeek-V2-Lite"
    assert [(layer.count, type(layer.feed_forwards[0]).__name__) for layer in model.layers] == [
        (1, "Dense"),
        (26, "Experts"),
    ]
    assert model.layers[1].feed_forwards[0] == Experts(64, 6, 1408, shared_width=2 * 1408)
    assert (model.weight_dtype, model.max_context) == ("bf16", 163_840)


def test_unknown_model_names_the_nearest_and_the_way_out() -> None:
    for text, near in (
        ("deepseek-ai/DeepSeek-V2-Light", "deepseek-ai/DeepSeek-V2-Lite"),
        ("llama-3.1-8b-it", "Llama-3.1-8B"),
    ):
        with pytest.raises(InputError) as caught:
            read_model(text)
        assert f"did you mean '{near}'" in str(caught.value)
        assert "path of its config.json" in str(caught.value)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(fields("qwen3", _source=...)))
    model = read_model(str(file))
    assert (model.name, model.source) == ("my-model", str(file))
    with pytest.raises(InputError, match=re.escape(f"is a folder; pass '{file}'")):
        read_model(str(folder))
    with pytest.raises(InputError, match="is a folder; expected the path"):
        read_model(str(tmp_path))
    with pytest.raises(InputError, match="there is no file"):
        read_model(str(tmp_path / "absent.json"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"is a folder; pass 'my-model/config\.json'"):
        read_model("my-model")
    # A file or folder wins over a packaged name only where the text looks like a path.
    (tmp_path / "Qwen3-8B").mkdir()
    assert read_model("Qwen3-8B").name == "Qwen/Qwen3-8B"
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    with pytest.raises(InputError, match="is a folder"):
        read_model("Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (b'{\n "model_type": "llama",\n "hidden_size": 40', "line 3, column 19"),
        (b'{\n "model_type": "llama",\n "hidden_size": 40', "cut off"),
        (b'{"model_type": "llama" "hidden_size": 1}', "line 1, column 24"),
        (b"[1, 2]", "expected a JSON object of fields, found [1, 2]"),
        (b"null", "expected a JSON object of fields, found null"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 text: byte 0 is 0xff"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not a configuration"),
        (b"[" * 200_000, "not a configuration"),
        (b'{"hidden_size": 4096}', "model_type is missing"),
        (b'{"model_type": 7}', "model_type is 7"),
        (b'{"text_config": {"model_type": "llama"}}', "which wrapper it lies in must be known"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_model(str(file))
    assert str(caught.value).startswith(str(file))
    assert said in str(caught.value)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(fields("llama")), encoding="utf-8-sig")
    assert read_model(str(file)).hidden == 4096


@pytest.mark.parametrize(
    ("model_type", "near"),
    [
        ("qwen3_nex", "qwen3_next"),
        ("deepseek_v33", "deepseek_v3"),
        ("llama5", "llama"),
        ("mamba_of_nobody", None),
    ],
)
def test_other_families_are_refused_by_name(model_type: str, near: str | None) -> None:
    with pytest.raises(InputError) as caught:
        parse_config({"model_type": model_type, "text_config": {}}, "f.json", "m")
    assert repr(model_type) in str(caught.value)
    assert "text_config" in str(caught.value)
    assert near is None or f"did you mean '{near}" in str(caught.value)


def test_a_problem_names_file_field_value_and_expectation() -> None:
    error = refusal("llama", num_hidden_layers="32")
    assert str(error) == 'config.json: num_hidden_layers is "32"; expected a whole number from 1 to 10,000'


def test_a_missing_field_names_the_nearest_one() -> None:
    error = refusal("llama", intermediate_size=..., intermediate_sizes=14336)
    assert "intermediate_size is missing" in str(error)
    assert "nearest field present: 'intermediate_sizes'" in str(error)


def test_a_nested_field_is_pointed_out() -> None:
    error = refusal("qwen3", hidden_size=..., text_config={"hidden_size": 4096})
    assert "hidden_size is missing" in str(error) and "nested in 'text_config'" in str(error)


def test_all_problems_are_told_at_once() -> None:
    error = refusal(
        "mixtral", hidden_size=None, vocab_size=0, num_local_experts=2.5, num_experts_per_tok=True
    )
    assert len(error.problems) == 4
    for field in (
        "hidden_size is null",
        "vocab_size is 0",
        "num_local_experts is 2.5",
        "num_experts_per_tok is true",
    ):
        assert any(field in problem for problem in error.problems)


@pytest.mark.parametrize("value", [None, "4096", True, 4096.0, -1, 0, 10**9 + 1, float("nan"), [], {}])
def test_sizes_must_be_whole_numbers(value: object) -> None:
    for model_type in TEN_FAMILIES:
        assert "hidden_size is" in str(refusal(model_type, hidden_size=value))


def test_numbers_that_json_does_not_allow_are_named_wherever_they_are() -> None:
    error = refusal("llama", rope_scaling={"factor": float("nan")}, rope_theta=float("inf"))
    assert sorted(error.problems) == [
        "rope_scaling.factor is nan; expected a finite number",
        "rope_theta is inf; expected a finite number",
    ]


@pytest.mark.parametrize(
    ("model_type", "changes", "said"),
    [
        ("llama", {"num_key_value_heads": 5}, "expected a multiple"),
        ("llama", {"num_attention_heads": 48, "num_key_value_heads": 48}, "where head_dim is absent"),
        ("opt", {"num_attention_heads": 37}, "expected a multiple"),
        ("opt", {"word_embed_proj_dim": 512}, "OPT-350m"),
        ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9 but num_local_experts only 8"),
        ("qwen3_moe", {"num_experts_per_tok": 129}, "expected at most all experts"),
        ("qwen3_moe", {"mlp_only_layers": [48]}, "layer numbers from 0 to 47"),
        ("qwen2_moe", {"num_key_value_heads": ...}, "num_key_value_heads is missing"),
        ("deepseek_v2", {"first_k_dense_replace": ...}, "first_k_dense_replace is missing"),
        ("deepseek_v2", {"moe_intermediate_size": ...}, "moe_intermediate_size is missing"),
        ("deepseek_v2", {"q_lora_rank": ...}, "q_lora_rank is missing; expected a whole number or null"),
        ("deepseek_v3", {"first_k_dense_replace": 62}, "expected no more"),
        ("deepseek_v3", {"attention_bias": True}, "not modelled"),
        ("llama", {"sliding_window": 4096}, "not modelled for llama"),
        ("qwen3_moe", {"sliding_window": 4096, "use_sliding_window": True}, "not modelled for qwen3_moe"),
        ("qwen2_moe", {"layer_types": ["sliding_attention"] * 24}, "not modelled for qwen2_moe"),
        ("qwen3", {"layer_types": ["sliding_attention"] * 36}, "no sliding_window is in force"),
        ("qwen3", {"layer_types": ["full_attention"] * 35}, "a list of 36 words"),
        ("llama", {"torch_dtype": "bfloat"}, "did you mean 'bfloat16'"),
        ("llama", {"torch_dtype": "float16", "dtype": "bfloat16"}, "differ"),
        ("llama", {"tie_word_embeddings": "no"}, "expected true or false"),
        ("llama", {"quantization_config": {"quant_method": "gtpq"}}, "did you mean 'gptq'"),
        ("llama", {"quantization_config": {}}, "quant_method is missing"),
        ("llama", {"quantization_config": 8}, "expected an object"),
        (
            "llama",
            {"quantization_config": {"quant_method": "fp8", "weight_block_size": 128}},
            "expected two whole numbers",
        ),
    ],
)
def test_refusals(model_type: str, changes: dict[str, Any], said: str) -> None:
    error = refusal(model_type, **changes)
    assert said in str(error)
    assert len(error.problems) == 1


@pytest.mark.parametrize(
    ("model_type", "kv_heads"),
    [("llama", 32), ("mistral", 8), ("mixtral", 8), ("qwen3", 32), ("qwen3_moe", 4)],
)
def test_default_of_kv_heads_is_noted(model_type: str, kv_heads: int) -> None:
    # Class defaults of transformers 5.24; llama's is None, which means as many as its 32 query heads.
    model = parse(model_type, num_key_value_heads=...)
    assert attention(model).kv_heads == kv_heads
    note = next(note for note in model.notes if note.startswith("num_key_value_heads absent"))
    assert str(kv_heads) in note and f"class default of {model_type} (transformers 5.24)" in note


def test_default_of_head_dim_is_noted() -> None:
    model = parse("qwen3", head_dim=..., hidden_size=5120)
    assert attention(model).head_dim == 128
    assert "head_dim absent: 128, the class default of qwen3 (transformers 5.24)" in model.notes
    assert attention(parse("qwen3_moe", head_dim=...)).head_dim == 2048 // 32


def test_a_full_configuration_needs_no_note() -> None:
    assert parse("qwen3").notes == ()
    assert parse("deepseek_v2").notes == ()


def test_tied_embeddings() -> None:
    assert parse("opt").tied_embeddings
    assert not parse("llama", tie_word_embeddings=...).tied_embeddings


def test_absent_dtype_is_said_and_not_guessed() -> None:
    model = parse("llama", torch_dtype=...)
    assert model.weight_dtype is None
    assert any("dtype of the checkpoint is not known" in note for note in model.notes)
    assert parse("llama", torch_dtype=..., dtype="float16").weight_dtype == "fp16"


def test_window_of_mistral_is_in_every_layer() -> None:
    assert windows(parse("mistral")) == {4096: 32}
    assert windows(parse("mistral", sliding_window=None)) == {None: 32}
    model = parse("mistral", sliding_window=...)
    assert windows(model) == {None: 32}
    assert any("sliding_window absent" in note and "4096" in note for note in model.notes)


def test_window_of_qwen_only_where_switched_on() -> None:
    # Qwen2.5-7B prints a window of 131,072 that is switched off. Switched on: full below max_window_layers.
    assert windows(parse("qwen2")) == {None: 28}
    assert windows(parse("qwen2", use_sliding_window=True, max_window_layers=20)) == {None: 20, 131072: 8}
    assert windows(parse("qwen2", use_sliding_window=True, max_window_layers=0)) == {131072: 28}
    assert windows(parse("qwen3", use_sliding_window=True)) == {None: 36}
    types = ["sliding_attention", "full_attention", "full_attention"] * 12
    model = parse("qwen3", use_sliding_window=True, sliding_window=512, layer_types=types)
    assert windows(model) == {512: 12, None: 24}


def test_dense_layers_of_deepseek() -> None:
    model = parse("deepseek_v3")
    assert [(layer.count, type(layer.feed_forwards[0]).__name__) for layer in model.layers] == [
        (3, "Dense"),
        (58, "Experts"),
    ]
    # Every second layer from layer 3 on: 4, 6, ..., 60 are 29.
    every_second = parse("deepseek_v3", moe_layer_freq=2)
    assert (
        sum(layer.count for layer in every_second.layers if isinstance(layer.feed_forwards[0], Experts)) == 29
    )
    assert parse("deepseek_v3", num_nextn_predict_layers=...).extras == (("fp8_scales", 40_838_232),)


def test_fp8_checkpoints() -> None:
    model = parse("deepseek_v3")
    assert (model.weight_dtype, model.wide_dtype) == ("fp8", "bf16")
    assert {fmt.block for layer in model.layers for _, fmt in layer.formats} == {(128, 128)}
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    kept = ["lm_head", "model.layers.0.mlp.gate", "model.layers.0.input_layernorm"]
    named = parse("qwen3_moe", quantization_config=fp8 | {"modules_to_not_convert": kept})
    assert (named.weight_dtype, len(named.layers)) == ("fp8", 1)
    wide = fp8 | {"modules_to_not_convert": ["model.layers.0.mlp.down_proj"]}
    first = parse("qwen3", quantization_config=wide).layers[0]
    assert first.count == 1 and "mlp.down_proj" not in first.format_of
