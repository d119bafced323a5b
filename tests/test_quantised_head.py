"""A head of the model's own that the lists of a quantised checkpoint do not leave out: its format, bytes and work.

Rules: vLLM 0.33.0, modelopt.py (get_quant_method takes ParallelLMHead like every linear layer) and
compressed_tensors/utils.py (find_matched_target: "Linear" is no part of "ParallelLMHead").
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.families import parse_config
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import storage_of, weight_bytes
from costmodel.memory.parallelism import Parallelism
from costmodel.memory.stages import Stage
from costmodel.memory.weights import gpu_weights
from costmodel.serving.bound import step_bound
from costmodel.serving.instance import make_instance
from costmodel.serving.work import head_loads

HIDDEN, VOCAB = 256, 1024
TABLE = HIDDEN * VOCAB  # 262,144
LLAMA = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": HIDDEN,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": VOCAB,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
FP8 = {"quant_method": "modelopt", "quant_algo": "FP8"}
SCHEME = {
    "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
    "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
}


def parse(quantisation: dict[str, Any], **changes: Any) -> Model:
    return parse_config({**LLAMA, **changes, "quantization_config": quantisation}, "config.json", "m")


def compressed(targets: list[str], ignore: list[str]) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": {**SCHEME, "targets": targets}},
        "ignore": ignore,
    }


def format_of_head(quantisation: dict[str, Any], **changes: Any) -> str | None:
    found = parse(quantisation, **changes).head_format
    return found.name if found else None


@pytest.mark.parametrize(
    ("quantisation", "expected"),
    [
        (NVFP4, "nvfp4"),
        (FP8, "fp8"),
        ({**NVFP4, "ignore": ["lm_head"]}, None),
        ({**NVFP4, "exclude_modules": ["*lm_head*"]}, None),
        ({**NVFP4, "exclude_modules": ["head"]}, None),
        ({**NVFP4, "exclude_modules": ["model.language_model.lm_head"]}, None),
        ({**NVFP4, "ignore": ["model.layers.0.self_attn*"]}, "nvfp4"),
        (compressed(["Linear"], []), None),
        (compressed(["re:.*"], []), "fp8"),
        (compressed(["re:.*"], ["re:.*lm_head"]), None),
        (compressed(["lm_head", "Linear"], []), "fp8"),
    ],
)
def test_which_heads_are_quantised(quantisation: dict[str, Any], expected: str | None) -> None:
    assert format_of_head(quantisation) == expected


def test_a_tied_head_is_as_wide_as_the_embedding() -> None:
    assert format_of_head(NVFP4, tie_word_embeddings=True) is None


def test_mixed_precision_names_its_head() -> None:
    layers = {"lm_head": {"quant_algo": "FP8"}, "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4"}}
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    assert format_of_head(mixed) == "fp8"
    assert format_of_head({**mixed, "exclude_modules": ["lm_head"]}) is None
    del layers["lm_head"]
    assert format_of_head(mixed) is None


def test_bytes_of_the_head() -> None:
    # NVFP4: half a byte a weight, one fp8 scale for 16 of them, two fp32 numbers; wide: two bytes a weight
    wide, narrow = parse({**NVFP4, "ignore": ["lm_head"]}), parse(NVFP4)
    assert weight_bytes(wide) - weight_bytes(narrow) == 2 * TABLE - (TABLE // 2 + TABLE // 16 + 8)
    # fp8 of ModelOpt: a byte a weight, a scale of the matrix and one of its input
    wide, narrow = parse({**FP8, "ignore": ["lm_head"]}), parse(FP8)
    assert weight_bytes(wide) - weight_bytes(narrow) == 2 * TABLE - (TABLE + 8)


def test_scales_of_the_head_are_named() -> None:
    with_head, without = (parse({**NVFP4, "ignore": ignored}) for ignored in ([], ["lm_head"]))
    assert dict(with_head.extras)["nvfp4_scales"] - dict(without.extras)["nvfp4_scales"] == TABLE // 16 + 2


def test_bytes_on_a_gpu() -> None:
    # two GPUs: half the rows of embedding (two bytes) and head, each with its own scales; the last norm whole
    model = parse(NVFP4)
    held = gpu_weights(Stage(0, 0, model, first=True, last=True), storage_of(model), Parallelism(tp=2))
    half = TABLE // 2
    assert held.ends_bytes == 2 * half + (half // 2 + half // 16 + 8) + 2 * HIDDEN


def test_a_requested_dtype_leaves_the_head_wide() -> None:
    model = parse(NVFP4)
    assert storage_of(model, "bf16").head is None
    assert weight_bytes(model, "bf16") == weight_bytes(parse({**NVFP4, "ignore": ["lm_head"]}), "bf16")


def test_a_head_that_the_engine_leaves_wide_is_said() -> None:
    assert any("does not name lm_head" in note for note in parse(compressed(["Linear"], [])).notes)
    assert not any("lm_head" in note for note in parse(NVFP4).notes)
    assert not any("lm_head" in note for note in parse(compressed(["Linear"], ["re:.*lm_head"])).notes)


@pytest.mark.parametrize(
    ("quantisation", "operator", "each"),
    [
        (NVFP4, "gemm", 9 / 16),  # widened before it is multiplied; half a byte and a byte for 16 weights
        (FP8, "gemm_fp8", 1),
        ({**FP8, "ignore": ["lm_head"]}, "gemm", 2),
    ],
)
def test_work_of_the_head(quantisation: dict[str, Any], operator: str, each: float) -> None:
    kind = make_instance(parse(quantisation), load_gpu("h100-sxm"), Parallelism(2))
    (head,) = head_loads(kind, 3)
    wide = make_instance(parse({**quantisation, "ignore": ["lm_head"]}), load_gpu("h100-sxm"), Parallelism(2))
    saved = step_bound(wide, (), 0, 3, 30.0).bytes_moved - step_bound(kind, (), 0, 3, 30.0).bytes_moved
    assert saved == TABLE / 2 * (2 - each)
    # three rows on one of two GPUs: two FLOPs a weight; weights, inputs and outputs once
    assert (head.kind, head.flop) == (operator, 2 * 3 * TABLE / 2)
    assert head.bytes_moved == TABLE / 2 * each + 2 * 3 * (HIDDEN + VOCAB / 2)
