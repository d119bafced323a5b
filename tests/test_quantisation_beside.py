"""Quantisation that a configuration does not state as quantization_config: ModelOpt's file beside it, MLX's field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 32,
    "tie_word_embeddings": False,
}
FP8 = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}


def written(
    folder: Path, data: dict[str, Any], *, name: str = "config.json", beside: str = json.dumps(FP8)
) -> str:
    (folder / "hf_quant_config.json").write_text(beside)
    (folder / name).write_text(json.dumps(data))
    return str(folder / name)


def test_it_is_taken_where_the_configuration_states_none(tmp_path: Path) -> None:
    model = read_model(written(tmp_path, LLAMA))
    assert (model.weight_dtype, model.kv_dtype) == ("fp8", "fp8")


def test_what_the_configuration_states_holds(tmp_path: Path) -> None:
    own = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    assert read_model(written(tmp_path, {**LLAMA, "quantization_config": own})).weight_dtype == "int4"


def test_a_file_of_another_name_does_not_lie_in_a_checkpoint(tmp_path: Path) -> None:
    assert read_model(written(tmp_path, LLAMA, name="llama.json")).weight_dtype == "bf16"


def test_a_broken_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hf_quant_config\.json: not JSON"):
        read_model(written(tmp_path, LLAMA, beside="{"))


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_mlx_quantised_is_not_counted_as_wide(wrapped: bool) -> None:
    own = {"quantization": {"group_size": 64, "bits": 4}}
    data = {"model_type": "llava", "text_config": LLAMA, **own} if wrapped else {**LLAMA, **own}
    with pytest.raises(InputError, match="as MLX writes it"):
        parse_config(data, "config.json", "m")
