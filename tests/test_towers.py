"""Vision and audio towers against published totals, and by hand; what is unknown is said and left out.

Published totals of packaged models are in published_totals.csv. Those here are of other models: llmfit
1.1.17 (PyPI), hf_models.json, safetensors.total of the Hugging Face API, or the sum over the parameters of
the class of transformers 5.24.
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.families.towers import audio, vision
from costmodel.families.towers.fields import Fields
from costmodel.families.towers.wrapped import COUNTERS
from costmodel.inputs.parameters import count_parameters, storage_of
from costmodel.memory.parallelism import Parallelism
from costmodel.memory.stages import pipeline_stages
from costmodel.memory.weights import gpu_weights

SO400M = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


def fields(**data: Any) -> Fields:
    return Fields(data, "", "config.json")


def counted(wrapper: str, key: str = "vision_config", text: int = 4096, **data: Any) -> dict[str, int]:
    return COUNTERS[wrapper][key](fields(**data), text)


def test_siglip_by_hand() -> None:
    # h 4, patches of 2 x 2 x 3 = 12 values, 9 of them. Patch 12 x 4 + 4 = 52; positions 36; a layer:
    # 4 x (16 + 4) + 4 x 8 + 8 + 8 x 4 + 4 + 4 x 4 = 172, two of them; the last norm 8.
    tiny = fields(hidden_size=4, intermediate_size=8, num_hidden_layers=2, patch_size=2, image_size=6)
    assert vision.siglip(tiny) == 52 + 36 + 2 * 172 + 8
    # CLIP: patches without bias 48, a class token 4, positions 40, norms before and after 16.
    assert vision.clip(tiny) == 48 + 4 + 40 + 2 * 172 + 16
    # Pooling: a probe 4, attention 80, a norm 8, a block 4 x 8 + 8 + 8 x 4 + 4 = 76.
    assert vision.siglip_head(tiny) == 4 + 80 + 8 + 76
    assert vision.siglip_head(fields(vision_use_head=False)) == 0
    # Pixtral: 48, a norm 4, two layers of 4 x 16 + 3 x 32 + 8.
    assert vision.pixtral(tiny) == 48 + 4 + 2 * 168


def test_projector_of_llava_by_hand() -> None:
    own = {
        "model_type": "clip_vision_model",
        "hidden_size": 4,
        "intermediate_size": 8,
        "num_hidden_layers": 2,
    }
    data: dict[str, Any] = {"vision_config": {**own, "patch_size": 2, "image_size": 6}}
    assert counted("llava", text=10, **data)["projector"] == 4 * 10 + 10 + 100 + 10
    # Features of two layers beside each other; llava_next ends rows with an embedding of its own.
    assert counted("llava_next", text=10, vision_feature_layer=[-1, -2], **data)["projector"] == 8 * 10 + 130


@pytest.mark.parametrize(
    ("wrapper", "language", "total", "text", "data"),
    [
        # Llama 3.1 8B with three more tokens in embedding and head
        (
            "idefics3",
            8_030_261_248 + 3 * 2 * 4096,
            8_462_086_384,
            4096,
            {"scale_factor": 2, "image_size": 364},
        ),
        # Gemma 2B: vocabulary 257,216; a head of 256; one KV head
        (
            "paligemma",
            257_216 * 2048 + 18 * (2048 * 2048 * 2 + 2 * 2048 * 256 + 3 * 2048 * 16_384 + 4096) + 2048,
            2_923_466_480,
            2048,
            {"image_size": 224},
        ),
    ],
)
def test_siglip_wrappers(wrapper: str, language: int, total: int, text: int, data: dict[str, Any]) -> None:
    own = {**SO400M, "image_size": data.pop("image_size")}
    assert language + sum(counted(wrapper, text=text, vision_config=own, **data).values()) == total


@pytest.mark.parametrize(
    ("hidden", "layers", "inner", "heads", "kv", "total"),
    [(3584, 28, 18_944, 28, 4, 7_944_373_760), (5120, 48, 13_824, 40, 8, 15_117_256_704)],
)
def test_internvl3(hidden: int, layers: int, inner: int, heads: int, kv: int, total: int) -> None:
    own = {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "patch_size": 14,
        "image_size": 448,
        "qkv_bias": True,
        "qk_normalization": False,
        "norm_type": "layer_norm",
    }
    text = {
        "model_type": "qwen2",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": 151_674,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    data = {"model_type": "internvl_chat", "downsample_ratio": 0.5, "vision_config": own, "llm_config": text}
    parameters = count_parameters(parse_config(data, "config.json", "m"))
    assert parameters.total_parameters + sum(parameters.extras.values()) == total


def test_internvit_of_6b() -> None:
    # InternVL3-38B: Qwen2.5-32B with 151,674 tokens has 32,763,876,352 - 2 x (152,064 - 151,674) x 5120.
    own = {
        "hidden_size": 3200,
        "intermediate_size": 12_800,
        "num_hidden_layers": 45,
        "patch_size": 14,
        "image_size": 448,
        "qkv_bias": False,
        "qk_normalization": True,
        "norm_type": "rms_norm",
    }
    parts = counted("internvl_chat", text=5120, downsample_ratio=0.5, vision_config=own)
    assert 32_763_876_352 - 2 * 390 * 5120 + sum(parts.values()) == 38_388_164_992


def test_pixtral_12b() -> None:
    # Mistral-Nemo: vocabulary 131,072, 40 layers, 32 heads of 128 and 8 for KV.
    nemo = 131_072 * 5120 * 2 + 40 * (5120 * 4096 * 2 + 2 * 5120 * 1024 + 3 * 5120 * 14_336 + 2 * 5120) + 5120
    own = {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
    parts = counted("llava", text=5120, vision_config={**own, "patch_size": 16, "image_size": 1024})
    assert nemo + sum(parts.values()) == 12_682_739_712


@pytest.mark.parametrize(
    ("text", "language", "total"),
    [(1536, 1_543_714_304, 2_208_985_600), (8192, 72_706_203_648, 73_405_560_320)],
)
def test_qwen2_vl(text: int, language: int, total: int) -> None:
    own = {"embed_dim": 1280, "mlp_ratio": 4, "depth": 32, "hidden_size": text, "patch_size": 14}
    parts = counted(
        "qwen2_vl", text=text, vision_config={**own, "temporal_patch_size": 2, "spatial_merge_size": 2}
    )
    assert language + sum(parts.values()) == total


@pytest.mark.parametrize(
    ("inner", "text", "language", "total"),
    [(3420, 2048, 3_085_938_688, 3_754_622_976), (3456, 8192, 72_706_203_648, 73_410_777_344)],
)
def test_qwen2_5_vl(inner: int, text: int, language: int, total: int) -> None:
    own = {
        "hidden_size": 1280,
        "intermediate_size": inner,
        "depth": 32,
        "out_hidden_size": text,
        "patch_size": 14,
    }
    parts = counted(
        "qwen2_5_vl", text=text, vision_config={**own, "temporal_patch_size": 2, "spatial_merge_size": 2}
    )
    assert language + sum(parts.values()) == total


GLM = {"depth": 24, "hidden_size": 1536, "out_hidden_size": 4096, "image_size": 336, "patch_size": 14}


def test_glm_4_1v() -> None:
    text = {
        "model_type": "glm4v_text",
        "hidden_size": 4096,
        "num_hidden_layers": 40,
        "vocab_size": 151_552,
        "intermediate_size": 13_696,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    own = {**GLM, "intermediate_size": 13_696, "temporal_patch_size": 2, "spatial_merge_size": 2}
    data = {"model_type": "glm4v", "text_config": text, "vision_config": own}
    parameters = count_parameters(parse_config(data, "config.json", "m"))
    assert parameters.total_parameters + sum(parameters.extras.values()) == 10_292_777_472


def test_glm_4_5v_is_glm_4_5_air_without_mtp() -> None:
    air = count_parameters(read_model("zai-org/GLM-4.5-Air")).total_parameters
    own = {**GLM, "intermediate_size": 10_944, "temporal_patch_size": 2, "spatial_merge_size": 2}
    assert air + sum(counted("glm4v_moe", vision_config=own).values()) == 107_710_933_120


WHISPER = {"d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120, "num_mel_bins": 128}


def test_audio_towers() -> None:
    assert audio.whisper(fields(**WHISPER), 1500) == 636_968_960
    assert audio.qwen2_5_omni(fields(**WHISPER, output_dim=3584)) == 639_647_232
    assert audio.qwen3_omni(fields(**WHISPER, output_dim=3584, downsample_hidden_size=480)) == 649_894_784
    parts = counted("qwen2_audio", "audio_config", audio_config={**WHISPER, "max_source_positions": 1500})
    assert parts == {"audio_tower": 636_968_960, "projector": 1280 * 4096 + 4096}


def test_towers_of_the_thinker() -> None:
    own = {
        "audio_config": {**WHISPER, "output_dim": 512},
        "text_config": {**LLAMA, "model_type": "qwen2_5_omni_text", "tie_word_embeddings": False},
    }
    model = parse_config({"model_type": "qwen2_5_omni", "thinker_config": own}, "config.json", "m")
    # one projection and two marks 512 wide instead of 3584
    assert dict(model.extras)["audio_tower"] == 639_647_232 - (1280 + 1 + 2) * (3584 - 512)
    assert "audio_tower" in model.loaded_extras


def test_what_is_unknown_is_named_and_left_out() -> None:
    absent = read_model("google/gemma-4-E2B-it")
    assert "vision_tower" not in dict(absent.extras)
    assert any("vision_config.head_dim absent" in note for note in absent.notes)
    assert any(note.startswith("audio_config: not counted") for note in absent.notes)
    kind = parse_config(
        {
            "model_type": "llava",
            "text_config": LLAMA,
            "vision_config": {"model_type": "dinov2", "hidden_size": 8},
        },
        "config.json",
        "m",
    )
    assert any('model_type "dinov2": not counted' in note for note in kind.notes)
    none = parse_config({"model_type": "llama4", "text_config": _llama4()}, "config.json", "m")
    assert any("vision_config absent" in note for note in none.notes)


def _llama4() -> dict[str, Any]:
    return {
        **LLAMA,
        "model_type": "llama4_text",
        "head_dim": 64,
        "intermediate_size_mlp": 2048,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1,
    }


def test_sizes_that_are_none_are_refused() -> None:
    data = {"model_type": "gemma3", "text_config": LLAMA, "vision_config": {**SO400M, "image_size": "896"}}
    with pytest.raises(
        InputError, match=r'vision_config\.image_size is "896"; expected a positive whole number'
    ):
        parse_config(data, "config.json", "m")
    with pytest.raises(InputError, match=r"expected a ratio such as 0\.5"):
        counted("internvl", vision_config={"hidden_size": 8}, downsample_ratio=2)


def test_towers_lie_on_the_first_stage_only_but_not_the_head_of_siglip() -> None:
    model = read_model("ibm-granite/granite-vision-3.3-2b")
    assert set(model.loaded_extras) == {"vision_tower", "projector"}
    extras = dict(model.extras)
    first, last = pipeline_stages(model, 2)
    held = gpu_weights(first, storage_of(model), Parallelism(pp=2)).towers_bytes
    assert held == 2 * (extras["vision_tower"] + extras["projector"])
    assert gpu_weights(last, storage_of(model), Parallelism(pp=2)).towers_bytes == 0
