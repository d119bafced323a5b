"""Families gemma, gemma2 and gemma3_text: hand counts, published totals less towers, windows, KV rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Attention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

MODELS = Path(__file__).parents[1] / "models"

#: Attention 8x8 + 2 x 4x8 + 8x8 = 192, feed-forward 3 x 8x10 = 240, embedding 32x8 = 256.
TINY: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 6,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 10,
    "max_position_embeddings": 100,
    "torch_dtype": "bfloat16",
}


def tiny(model_type: str, **fields: object) -> Model:
    return parse_config({**TINY, "model_type": model_type, **fields}, "tiny.json", "tiny")


def language_model(name: str) -> Model:
    """The packaged file's language model, read by itself."""
    data = json.loads((MODELS / f"{name.replace('/', '--')}.json").read_text())
    return parse_config(data.get("text_config", data), name, name)


def windows(model: Model) -> list[int | None]:
    found = []
    for place in model.order:
        (mixer,) = model.layers[place].mixers
        assert isinstance(mixer, Attention)
        found.append(mixer.window)
    return found


# Per layer 432 and 2 x 8 (gemma) or 4 x 8 norm weights, for gemma3 2 x 4 more; then embedding and last norm.
@pytest.mark.parametrize(
    ("model_type", "total"),
    [
        ("gemma", 6 * (432 + 16) + 256 + 8),
        ("gemma2", 6 * (432 + 32) + 256 + 8),
        ("gemma3_text", 6 * (432 + 32 + 8) + 256 + 8),
    ],
)
def test_hand_count(model_type: str, total: int) -> None:
    assert count_parameters(tiny(model_type)).total_parameters == total


def test_attention_bias_adds_q_k_v_and_o() -> None:
    # 8 + 4 + 4 + 8 a layer
    biased = count_parameters(tiny("gemma", attention_bias=True)).total_parameters
    assert biased - count_parameters(tiny("gemma")).total_parameters == 6 * 24


# Published total (safetensors.total of the Hugging Face API, in llmfit 1.1.17 on PyPI) less the SigLIP tower
# of 416,866,032 and the projector of 1152 + 1152 x hidden.
@pytest.mark.parametrize(
    ("name", "published", "hidden"),
    [
        ("google/gemma-3-4b-it", 4_300_079_472, 2560),
        ("google/gemma-3-12b-it", 12_187_325_040, 3840),
        ("google/gemma-3-27b-it", 27_432_406_640, 5376),
    ],
)
def test_published_total_less_tower(name: str, published: int, hidden: int) -> None:
    counted = count_parameters(language_model(name)).total_parameters
    assert counted == published - 416_866_032 - 1152 - 1152 * hidden


# Text-only counts of keras-team/keras-hub (gemma3_presets.py), whose vocabulary is 64 smaller.
@pytest.mark.parametrize(
    ("name", "published", "hidden"),
    [("google/gemma-3-4b-it", 3_880_099_328, 2560), ("google/gemma-3-12b-it", 11_765_788_416, 3840)],
)
def test_published_text_total(name: str, published: int, hidden: int) -> None:
    assert count_parameters(language_model(name)).total_parameters == published + 64 * hidden


def test_gemma3_reads_the_fields_its_files_omit() -> None:
    omitted = ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    data = json.loads((MODELS / "google--gemma-3-4b-it.json").read_text())["text_config"]
    short = parse_config({k: v for k, v in data.items() if k not in omitted}, "short.json", "short")
    assert count_parameters(short).total_parameters == 4_300_079_472 - 419_816_304
    assert all(any(note.startswith(f"{field} absent") for note in short.notes) for field in omitted)


def test_gemma2_windows_every_second_layer() -> None:
    assert windows(tiny("gemma2", sliding_window=5)) == [5, None, 5, None, 5, None]


def test_gemma3_has_full_attention_in_every_sixth_layer_or_as_stated() -> None:
    assert windows(tiny("gemma3_text", sliding_window=5)) == [5, 5, 5, 5, 5, None]
    every_third = tiny("gemma3_text", sliding_window=5, sliding_window_pattern=3)
    assert windows(every_third) == [5, 5, None, 5, 5, None]
    types = ["full_attention"] + 5 * ["sliding_attention"]
    assert windows(tiny("gemma3_text", sliding_window=5, layer_types=types)) == [None, 5, 5, 5, 5, 5]


# Rows (count, window) and bytes a token in bf16 of all layers and of those that grow.
# 27b: 2 x 16 x 128 x 2 B = 8,192 B a layer.
@pytest.mark.parametrize(
    ("name", "rows", "every_layer", "growing"),
    [
        ("google/gemma-2-27b", {(23, 4096), (23, None)}, 376_832, 188_416),
        ("google/gemma-3-27b-it", {(52, 1024), (10, None)}, 507_904, 81_920),
    ],
)
def test_kv_rows(name: str, rows: set[tuple[int, int | None]], every_layer: int, growing: int) -> None:
    cached = kv_bytes(language_model(name), 1, "bf16")
    assert {(row.count, row.window) for row in cached.rows} == rows
    assert cached.kv_bytes_per_token_all_layers == every_layer
    assert cached.kv_bytes_per_token == growing


def test_gemma3_keeps_two_rotary_tables_of_which_scaling_lengthens_one() -> None:
    # Loaded weights in vLLM 0.19's log: 8.58 GiB; 4,300,079,472 x 2 B = 8.010 GiB and, in 16 bits,
    # (8 + 1) x 131,072 x 256 elements = 0.5625 GiB.
    model = language_model("google/gemma-3-4b-it")
    assert model.rotary_elements == 9 * 131_072 * 256
    assert (4_300_079_472 + model.rotary_elements) * 2 / 2**30 == pytest.approx(8.58, rel=0.002)


def test_rotary_parameters_by_type_of_layer() -> None:
    stated = {"full_attention": {"rope_type": "linear", "factor": 3.0}, "sliding_attention": {}}
    assert tiny("gemma3_text", rope_parameters=stated).rotary_elements == (3 + 1) * 100 * 4


@pytest.mark.parametrize("model_type", ["gemma", "gemma2", "gemma3_text"])
def test_bidirectional_attention_is_refused(model_type: str) -> None:
    with pytest.raises(InputError, match="use_bidirectional_attention is true"):
        tiny(model_type, use_bidirectional_attention=True)


def test_a_short_layer_list_is_refused() -> None:
    with pytest.raises(InputError, match="layer_types"):
        tiny("gemma3_text", layer_types=["full_attention"])


def test_a_missing_hidden_size_is_no_default() -> None:
    data = {key: value for key, value in TINY.items() if key != "hidden_size"}
    with pytest.raises(InputError, match="hidden_size is missing"):
        parse_config({**data, "model_type": "gemma3_text"}, "tiny.json", "tiny")
