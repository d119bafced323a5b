"""Mutated configurations: each is read right or refused by name, and never as another family."""

from __future__ import annotations

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from cli_runner import run
from independent_count import count

from costmodel.errors import InputError
from costmodel.families import ADAPTERS, packaged_models, parse_config
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

Fields = dict[str, Any]

MUTANTS = 2000
BATCHES = 8
WHERE = "mutant/config.json"

#: Names that one family has for what another calls otherwise.
OTHER_NAMES = {
    "hidden_size": ("n_embd", "d_model", "n_embed", "hidden_dim", "dim"),
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers", "num_decoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups"),
    "head_dim": ("attention_head_dim", "kv_channels", "head_size"),
    "intermediate_size": ("ffn_dim", "n_inner", "ffn_hidden_size", "moe_intermediate_size", "hidden_dim"),
    "moe_intermediate_size": ("intermediate_size", "expert_ffn_hidden_size", "ffn_dim"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts", "n_experts"),
    "num_local_experts": ("num_experts", "n_routed_experts", "moe_num_experts"),
    "n_routed_experts": ("num_experts", "num_local_experts", "moe_num_experts"),
    "num_experts_per_tok": ("top_k", "moe_topk", "moe_k", "top_k_experts"),
    "n_shared_experts": ("moe_num_shared_experts", "num_shared_experts"),
    "vocab_size": ("padded_vocab_size", "n_vocab"),
    "sliding_window": ("attention_window", "window_size"),
    "layer_types": ("layers_block_type", "attention_types"),
    "kv_lora_rank": ("kv_rank",),
}
WRONG_TYPES: tuple[Any, ...] = (
    "4096",
    "",
    "auto",
    [],
    [1, 2],
    {},
    {"value": 8},
    True,
    False,
    2.5,
    32.0,
    "é" * 90,
)
OUT_OF_RANGE: tuple[Any, ...] = (
    *(-1, 0, -(10**6), 10**9 + 1, 10**12, 10**40, 1e308, -0.5),
    *(float("nan"), float("inf"), [float("nan")]),
)


@cache
def packaged_text(name: str) -> str:
    return files("costmodel._models").joinpath(name.replace("/", "--", 1) + ".json").read_text("utf-8")


def packaged(name: str) -> Fields:
    fields: Fields = json.loads(packaged_text(name))
    return fields


def model_fields(data: Fields) -> Fields:
    """The object that holds the sizes: of a wrapper the nested one."""
    nested = data.get("text_config")
    return nested if isinstance(nested, dict) else data


def pick(rng: random.Random, fields: Fields, kind: type | None = None) -> str:
    """A field (of that type, where there is one) other than the model_type, which has its own mutation."""
    names = sorted(key for key in fields if key not in ("model_type", "_source", "text_config"))
    names = names or sorted(fields)
    return rng.choice([key for key in names if kind is None or type(fields[key]) is kind] or names)


def drop(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    del fields[pick(rng, fields)]


def rename(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    known = sorted(set(OTHER_NAMES) & set(fields))
    field = rng.choice(known) if known and rng.random() < 0.8 else pick(rng, fields)
    fields[rng.choice(OTHER_NAMES.get(field, (field + "_", field.upper(), field[:-1])))] = fields.pop(field)


def nest(rng: random.Random, data: Fields) -> None:
    """Nest sizes that stand at the top, or lift nested ones; sometimes the model_type goes along."""
    nested = data.pop("text_config", None)
    if isinstance(nested, dict):
        outer = data.get("model_type")
        data.update(nested)
        data["model_type"] = outer if rng.random() < 0.5 else nested.get("model_type", outer)
        return
    moved = [key for key in data if key not in ("model_type", "_source")]
    chosen = moved if rng.random() < 0.6 else rng.sample(moved, len(moved) // 2)
    inner = {key: data.pop(key) for key in chosen}
    if rng.random() < 0.4:
        inner["model_type"] = data.get("model_type")
    if rng.random() < 0.3:
        data.pop("model_type", None)
    data[rng.choice(("text_config", "llm_config", "language_config", "model"))] = inner


def null(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    fields[pick(rng, fields)] = None


def wrong_type(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    fields[pick(rng, fields)] = rng.choice(WRONG_TYPES)


def out_of_range(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    fields[pick(rng, fields, int)] = rng.choice(OUT_OF_RANGE)


def resize(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    field = pick(rng, fields, int)
    size = fields[field] if type(fields[field]) is int else 8
    fields[field] = rng.choice((2 * size, max(1, size // 2), size + 1, 3 * size, 1, 2, 16))


def swap(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    first, second = pick(rng, fields, int), pick(rng, fields, int)
    fields[first], fields[second] = fields[second], fields[first]


def flip(rng: random.Random, data: Fields) -> None:
    fields = model_fields(data)
    field = pick(rng, fields, bool)
    fields[field] = fields[field] is not True


def relayer(rng: random.Random, data: Fields) -> None:
    """Spoil what is said of each layer: doubled, cut, reversed, one word changed; where nothing is, say something."""
    fields = model_fields(data)
    lists = sorted(key for key in fields if isinstance(fields[key], list) and len(fields[key]) > 3)
    lists += [key for key in ("hybrid_override_pattern",) if isinstance(fields.get(key), str)]
    if not lists:
        count_ = fields.get("num_hidden_layers", 8)
        kinds = ("full_attention", "sliding_attention", "linear_attention", "chunked_attention", "mamba", "?")
        shown = count_ if type(count_) is int and count_ < 200 else 8
        fields["layer_types"] = [rng.choice(kinds[: rng.randint(1, 6)])] * (shown + rng.choice((0, 0, 1, -1)))
        return
    field = rng.choice(lists)
    stated = fields[field]
    odd = stated[:-1] + ("?" if isinstance(stated, str) else ["?"])
    fields[field] = rng.choice((stated + stated, stated[:-1], stated[: len(stated) // 2], stated[::-1], odd))


def quantise(rng: random.Random, data: Fields) -> None:
    method = rng.choice(
        ("gtpq", "bitsandbytes", "fp8", "awq", "gptq", "hqq", "", None, 8, ["fp8"], "compressed-tensors")
    )
    odd: tuple[Any, ...] = (
        {"quant_method": method},
        {"quant_method": method, "bits": rng.choice((3, 4, "4", -4))},
    )
    data["quantization_config"] = rng.choice((*odd, *odd, "fp8", [], {}, 4, True))


def other_family(rng: random.Random, data: Fields) -> None:
    fields = rng.choice((data, model_fields(data)))
    stated = str(fields.get("model_type", ""))
    misspelt = (stated + "x", stated[:-1], stated.upper(), stated.replace("_", "-"), f" {stated}")
    odd: tuple[Any, ...] = ([stated], {"type": stated}, None, 3, True, "", "transformer")
    fields["model_type"] = rng.choice(
        (rng.choice(sorted(ADAPTERS)), rng.choice(sorted(ADAPTERS)), rng.choice(misspelt), rng.choice(odd))
    )


def borrow(rng: random.Random, data: Fields) -> None:
    """Take over fields of another model."""
    fields, donor = model_fields(data), model_fields(packaged(rng.choice(packaged_models())))
    for _ in range(rng.randint(1, 3)):
        field = pick(rng, donor)
        fields[field] = donor[field]


MUTATIONS: tuple[Callable[[random.Random, Fields], None], ...] = (
    *(drop, rename, nest, null, wrong_type, out_of_range, resize, resize, swap, flip),
    *(relayer, quantise, other_family, borrow),
)


def mutant(seed: int) -> tuple[str, str, Fields]:
    """The packaged model, the mutations and the fields of a seed: mostly one mutation, at times two or three."""
    rng = random.Random(seed)
    names = packaged_models()
    name, said = names[seed % len(names)], []
    data = copy.deepcopy(packaged(name))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(MUTATIONS)
        mutation(rng, data)
        said.append(mutation.__name__)
    return name, "+".join(said), data


def check(model: Model, data: Fields) -> bool:
    """Check a model that was read from a mutant; return whether its count was checked."""
    assert model.model_type == data["model_type"]
    total = count_parameters(model).total_parameters
    kv = kv_bytes(model, 100, "bf16")
    assert total > 0 and kv.kv_bytes >= 0 and math.isfinite(kv.kv_bytes)
    expected = count(data)
    if expected is None:
        return False
    assert (total, kv.kv_bytes_per_token, kv.kv_bytes_per_token_all_layers) == expected
    return True


@cache
def outcomes(batch: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(batch, MUTANTS, BATCHES):
        name, said, data = mutant(seed)
        try:
            model = parse_config(data, WHERE, "m")
        except InputError as error:
            assert str(error).startswith(f"{WHERE}: ") and all(error.problems), (seed, name, said)
            found["refused"] += 1
            continue
        try:
            counted = check(model, data)
        except (AssertionError, KeyError, TypeError) as error:
            raise AssertionError(f"seed {seed}: {name} after {said}") from error
        found["counted"] += counted
        found["read"] += 1
    return found


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_mutant_is_read_right_or_refused_by_name(batch: int) -> None:
    found = outcomes(batch)
    assert found["read"] + found["refused"] == MUTANTS // BATCHES


def test_enough_mutants_are_read_and_counted_a_second_time() -> None:
    found = sum((outcomes(batch) for batch in range(BATCHES)), Counter())
    assert found["read"] + found["refused"] == MUTANTS
    assert found["counted"] >= 400 and found["refused"] >= 400


@pytest.mark.parametrize("name", packaged_models())
def test_packaged_models_are_the_independent_count(name: str) -> None:
    model, expected = parse_config(packaged(name), WHERE, name), count(packaged(name))
    if expected is not None:
        kv = kv_bytes(model, 100, "bf16")
        assert count_parameters(model).total_parameters == expected.parameters
        assert (kv.kv_bytes_per_token, kv.kv_bytes_per_token_all_layers) == expected[1:]


def test_the_command_line_answers_a_mutant_or_says_what_is_wrong(tmp_path: Path) -> None:
    codes: Counter[int] = Counter()
    for seed in range(0, MUTANTS, MUTANTS // 40):
        _, said, data = mutant(seed)
        file = tmp_path / f"{seed}.json"
        file.write_text(json.dumps(data))
        result = run("kv", str(file), "--tokens", "100")
        codes[result.exit_code] += 1
        assert result.exit_code in (0, 2), (seed, said, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit), (seed, said)
        assert "Traceback" not in result.output
        assert result.exit_code == 0 or str(file) in result.output
    assert codes[0] + codes[2] == 40 and codes[0] >= 5 and codes[2] >= 5


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        # MLA, experts, windows or another pattern of layers under a model_type that has none of them
        ("deepseek-ai/DeepSeek-V3", {"model_type": "llama"}, "kv_lora_rank is 512, but llama does not use"),
        ("Qwen/Qwen3-30B-A3B", {"model_type": "qwen3"}, "num_experts is 128, but qwen3 does not use"),
        ("deepseek-ai/DeepSeek-V3.2", {"model_type": "deepseek_v3"}, "index_topk is 2048, but deepseek_v3"),
        (
            "ibm-granite/granite-3.1-8b-instruct",
            {"sliding_window": 4096},
            "sliding_window is 4096, but granite",
        ),
        ("mistralai/Mixtral-8x7B-v0.1", {"n_shared_experts": 1}, "n_shared_experts is 1, but mixtral"),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            {"moe_intermediate_size": 64},
            "moe_intermediate_size is 64, but mixtral",
        ),
        ("mistralai/Mistral-7B-v0.3", {"attention_bias": True}, "attention_bias is true, but mistral"),
        ("ibm-granite/granite-3.1-8b-instruct", {"layer_types": ["mamba"] * 40}, "layer_types is"),
        # two names of one thing with two numbers
        ("Qwen/Qwen3-30B-A3B", {"num_local_experts": 64}, "num_experts is 128 but num_local_experts"),
        ("meta-llama/Llama-3.1-8B", {"n_layer": 16}, "num_hidden_layers is 32 but n_layer"),
        # the model_type inside a wrapper is no text
        ("google/gemma-3-4b-it", {"text_config": {"model_type": ["llama"]}}, "text_config.model_type is"),
    ],
)
def test_what_contradicts_the_model_type_is_refused(name: str, changes: Fields, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_config({**packaged(name), **changes}, WHERE, "m")
    assert said in str(caught.value)


def test_who_insists_on_a_family_is_told_what_it_ignores() -> None:
    model = parse_config(packaged("deepseek-ai/DeepSeek-V3"), WHERE, "m", assume_family="llama")
    assert any("kv_lora_rank is 512" in note and "ignored" in note for note in model.notes)
