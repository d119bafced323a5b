"""KV bytes against published figures, hand counts and a token-by-token loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.formulas import kv as book
from costmodel.inputs.model import Attention, Dense, Experts, LatentAttention, Layer, Mixer, Model
from costmodel.memory.kv import kv_bytes, sequence_bytes
from costmodel.memory.parallelism import allowed_tp, check_tp

# Bytes a token in bf16 over all layers, by hand: layers x 2 x KV heads x head width x 2 bytes; MLA: layers x
# (latent + rotary key) x 2 bytes. DeepSeek's hardware paper prints 70 KB for V3 and 516 for Llama-3.1-405B.
ALL_LAYERS = {
    "deepseek-ai/DeepSeek-V2-Lite": 27 * (512 + 64) * 2,
    "deepseek-ai/DeepSeek-V2": 60 * (512 + 64) * 2,
    "deepseek-ai/DeepSeek-V3": 61 * (512 + 64) * 2,
    "Qwen/Qwen2.5-7B": 28 * 2 * 4 * 128 * 2,
    "Qwen/Qwen2.5-72B": 80 * 2 * 8 * 128 * 2,
    "Qwen/Qwen3-8B": 36 * 2 * 8 * 128 * 2,
    "Qwen/Qwen3-32B": 64 * 2 * 8 * 128 * 2,
    "Qwen/Qwen3-30B-A3B": 48 * 2 * 4 * 128 * 2,
    "Qwen/Qwen3-235B-A22B": 94 * 2 * 4 * 128 * 2,
    "meta-llama/Llama-2-7b-hf": 32 * 2 * 32 * 128 * 2,
    "meta-llama/Llama-2-13b-hf": 40 * 2 * 40 * 128 * 2,
    "meta-llama/Llama-2-70b-hf": 80 * 2 * 8 * 128 * 2,
    "meta-llama/Llama-3.1-8B": 32 * 2 * 8 * 128 * 2,
    "meta-llama/Llama-3.1-70B": 80 * 2 * 8 * 128 * 2,
    "meta-llama/Llama-3.1-405B": 126 * 2 * 8 * 128 * 2,
    "meta-llama/Llama-3.2-3B": 28 * 2 * 8 * 128 * 2,
    "mistralai/Mistral-7B-v0.1": 32 * 2 * 8 * 128 * 2,
    "mistralai/Mistral-7B-v0.3": 32 * 2 * 8 * 128 * 2,
    "mistralai/Mistral-Large-Instruct-2407": 88 * 2 * 8 * 128 * 2,
    "mistralai/Mixtral-8x7B-v0.1": 32 * 2 * 8 * 128 * 2,
    "mistralai/Mixtral-8x22B-v0.1": 56 * 2 * 8 * 128 * 2,
    "01-ai/Yi-34B": 60 * 2 * 8 * 128 * 2,
    "facebook/opt-13b": 40 * 2 * 5120 * 2,
    "facebook/opt-66b": 64 * 2 * 9216 * 2,
    "facebook/opt-175b": 96 * 2 * 12288 * 2,
}


@pytest.mark.parametrize("name", ALL_LAYERS)
def test_bytes_per_token(name: str) -> None:
    held = kv_bytes(read_model(name), 1, "bf16")
    assert held.kv_bytes_per_token_all_layers == ALL_LAYERS[name]
    windowed = name == "mistralai/Mistral-7B-v0.1"
    assert held.kv_bytes_per_token == (0 if windowed else ALL_LAYERS[name])


def test_published_sizes() -> None:
    assert kv_bytes(read_model("DeepSeek-V2-Lite"), 1, "bf16").kv_bytes_per_token == 31_104
    assert kv_bytes(read_model("DeepSeek-V3"), 1, "bf16").kv_bytes_per_token == 70_272
    assert kv_bytes(read_model("Llama-3.1-8B"), 1, "bf16").kv_bytes_per_token == 131_072
    # Mooncake's README: LLaMA3-70B at 128k tokens takes 40 GB (GiB).
    assert kv_bytes(read_model("Meta-Llama-3-70B"), 131_072, "bf16").kv_bytes == 40 * 2**30


def test_expanded_latent_of_deepseek_v2_lite() -> None:
    (row,) = kv_bytes(read_model("DeepSeek-V2-Lite"), 1, "bf16").rows
    expanded = book.kv_bytes_latent_expanded(16, 128, 64, 128, 2)
    assert (row.kind, row.count, row.count * expanded) == ("MLA", 27, 276_480)


@pytest.mark.parametrize(
    ("tokens", "held"),
    [
        (0, 0),
        (1, 131_072),
        (512, 67_108_864),
        (4095, 536_739_840),
        (4096, 536_870_912),
        (65_536, 536_870_912),
    ],
)
def test_window_of_mistral_7b(tokens: int, held: int) -> None:
    answer = kv_bytes(read_model("mistralai/Mistral-7B-v0.1"), tokens, "bf16")
    assert answer.kv_bytes == held
    assert answer.kv_bytes_per_gpu == held
    assert answer.fixed_bytes_per_sequence == 536_870_912
    assert answer.kv_bytes_per_token == 0


def test_replication_over_four_kv_heads() -> None:
    # Mooncake's page on SGLang, Qwen3-235B at TP8: 12.62 GB at 32,768 tokens; each head once is 6.308 GB.
    answer = kv_bytes(read_model("Qwen/Qwen3-235B-A22B"), 32_768, "bf16", tp=8)
    assert answer.replication == 2
    assert answer.kv_bytes == 6_308_233_216
    assert 8 * answer.kv_bytes_per_gpu == pytest.approx(12.62e9, rel=4e-4)


def test_no_replication_where_heads_suffice() -> None:
    # Qwen3-8B at TP8 keeps one of its 8 KV heads on each GPU: 36 x 2 x 128 x 2 bytes a token.
    answer = kv_bytes(read_model("Qwen/Qwen3-8B"), 1000, "bf16", tp=8)
    assert answer.replication == 1
    assert answer.kv_bytes_per_gpu == 1000 * 36 * 2 * 128 * 2
    assert 8 * answer.kv_bytes_per_gpu == answer.kv_bytes


def test_latent_is_whole_on_every_gpu() -> None:
    answer = kv_bytes(read_model("deepseek-ai/DeepSeek-V3"), 10, "bf16", tp=8)
    assert answer.replication == 8
    assert answer.kv_bytes_per_gpu == answer.kv_bytes == 702_720


def test_dtype_scales_the_bytes() -> None:
    model = read_model("Llama-3.1-8B")
    assert kv_bytes(model, 3, "fp8").kv_bytes == 3 * 65_536
    assert kv_bytes(model, 3, "fp32").kv_bytes == 3 * 262_144
    for name in ("auto", "float16", ""):
        with pytest.raises(InputError, match="unknown KV dtype"):
            kv_bytes(model, 3, name)


@pytest.mark.parametrize("tokens", [-1, 1.5, "12", True, float("nan"), None])
def test_tokens_must_be_a_count(tokens: object) -> None:
    with pytest.raises(InputError, match="tokens is"):
        kv_bytes(read_model("Llama-3.1-8B"), tokens, "bf16")  # type: ignore[arg-type]


def test_blocks_against_a_loop() -> None:
    for tokens in range(1, 70):
        blocks = 0
        while blocks * 16 < tokens:
            blocks += 1
        assert book.blocks_ceil(tokens, 16) == blocks
        assert book.blocks_plus_one(tokens, 16) == (blocks if tokens % 16 else blocks + 1)


def test_mooncake_sizes_are_whole_blocks_and_one() -> None:
    # Printed for Qwen3-8B: 20, 38, 74, 146, 290, 578 MB, which are MiB of 2.25 MiB blocks, rounded down.
    per_token = kv_bytes(read_model("Qwen/Qwen3-8B"), 1, "bf16").kv_bytes_per_token
    printed = {128: 20, 256: 38, 512: 74, 1024: 146, 2048: 290, 4096: 578}
    for tokens, size in printed.items():
        assert int(book.blocks_plus_one(tokens, 16) * 16 * per_token / 2**20) == size


NARROW = Dense(64)


def tiny(*mixers: Mixer, ffn: Dense | Experts = NARROW) -> Model:
    layers = tuple(Layer(index + 1, (mixer, ffn), 0) for index, mixer in enumerate(mixers))
    return Model("tiny", "test", 64, 10, layers, False, "bf16", None, "test")


WINDOWS = st.one_of(st.none(), st.integers(1, 40))
MIXERS = st.one_of(
    st.builds(Attention, st.just(8), st.sampled_from([1, 2, 4, 8]), st.integers(1, 9), window=WINDOWS),
    st.builds(
        LatentAttention, st.just(8), st.none(), st.integers(1, 9), st.just(1), st.integers(1, 9), st.just(1)
    ),
)


@given(
    st.lists(MIXERS, min_size=1, max_size=4, unique=True), st.integers(0, 60), st.sampled_from([1, 2, 4, 8])
)
def test_sequence_against_a_loop_over_tokens(mixers: list[Mixer], tokens: int, tp: int) -> None:
    model = tiny(*mixers)
    once = per_gpu = 0
    for layer in model.layers:
        mixer = layer.mixers[0]
        for position in range(tokens):
            age = tokens - 1 - position
            if mixer.window is not None and age >= mixer.window:
                continue
            if isinstance(mixer, LatentAttention):
                once += layer.count * 2 * (mixer.kv_rank + mixer.rope_dim)
                per_gpu += layer.count * 2 * (mixer.kv_rank + mixer.rope_dim)
            else:
                # GPU 0 keeps the heads that its share of the query heads reads.
                local = {query * mixer.kv_heads // mixer.heads for query in range(mixer.heads // tp)}
                once += layer.count * 2 * 2 * mixer.kv_heads * mixer.head_dim
                per_gpu += layer.count * 2 * 2 * len(local) * mixer.head_dim
    answer = kv_bytes(model, tokens, "bf16", tp)
    assert (answer.kv_bytes, answer.kv_bytes_per_gpu) == (once, per_gpu)


@given(st.lists(MIXERS, min_size=1, max_size=4, unique=True), st.integers(40, 99))
def test_slope_and_constant_beyond_the_largest_window(mixers: list[Mixer], tokens: int) -> None:
    answer = kv_bytes(tiny(*mixers), tokens, "bf16")
    assert answer.kv_bytes == answer.kv_bytes_per_token * tokens + answer.fixed_bytes_per_sequence


def test_tp_that_does_not_divide_names_numbers_and_degrees() -> None:
    with pytest.raises(InputError) as caught:
        check_tp(read_model("Qwen/Qwen2.5-7B"), 8)
    # 28 query heads, 4 KV heads, width 18,944 = 2^9 x 37: of 1, 2, 4, 7, 14, 28 only the first three divide.
    assert "TP8" in str(caught.value)
    assert "28 query heads" in str(caught.value)
    assert str(caught.value).endswith("allowed TP: 1, 2, 4")


def test_tp_checks_kv_heads_and_widths() -> None:
    assert allowed_tp(tiny(Attention(24, 4, 8), ffn=Dense(48))) == (1, 2, 4, 8, 12, 24)
    assert allowed_tp(tiny(Attention(24, 4, 8), ffn=Dense(40))) == (1, 2, 4, 8)
    assert allowed_tp(tiny(Attention(8, 8, 8), ffn=Experts(4, 2, 16, shared_width=4))) == (1, 2, 4)
    with pytest.raises(InputError, match="6 KV heads"):
        check_tp(tiny(Attention(12, 6, 8), ffn=Dense(48)), 4)
    with pytest.raises(InputError, match="expert of width 6"):
        check_tp(tiny(Attention(8, 8, 8), ffn=Experts(4, 2, 6)), 4)


@pytest.mark.parametrize("tp", [0, -2, 1.0, "2", True])
def test_tp_must_be_a_count(tp: object) -> None:
    with pytest.raises(InputError, match="TP is"):
        check_tp(read_model("Llama-3.1-8B"), tp)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["Mistral-7B-v0.1", "Qwen3-Next-80B-A3B-Instruct", "gemma-3-12b-it", "DeepSeek-V3.2"]
)
@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("tokens", [0, 1, 1023, 1024, 4097, 100_000])
def test_prepared_bytes_are_those_of_each_layer(name: str, tp: int, tokens: int) -> None:
    model = read_model(name)
    assert (
        sequence_bytes(model, "bf16", tp).of(tokens) == kv_bytes(model, tokens, "bf16", tp).kv_bytes_per_gpu
    )
