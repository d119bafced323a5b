"""FLOPs and bytes of every kind of layer in a step: by hand, or by a loop over positions written out here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import pytest

from costmodel.families import read_model
from costmodel.inputs.formats import WeightFormat
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.model import (
    Attention,
    Block,
    Dense,
    Experts,
    Indexer,
    LatentAttention,
    Layer,
    Model,
    Recurrent,
)
from costmodel.inputs.tensor import Tensor, vector
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.step import analyse_step, step_loads
from costmodel.serving.work import Chunk

HIDDEN, VOCAB = 96, 64
Found = dict[str, tuple[float, float]]


def tiny(*blocks: Block, count: int = 1, tp: int = 1, kv_dtype: str = "bf16") -> InstanceKind:
    """``count`` layers of these blocks in bf16 on A100s."""
    layer = Layer(count, blocks, 0)
    model = Model("tiny", "tiny", HIDDEN, VOCAB, (layer,), False, "bf16", None, "here")
    return make_instance(model, load_gpu("a100-sxm-80gb"), Parallelism(tp), kv_dtype=kv_dtype)


@lru_cache
def packaged(model: str, gpu: str = "h100-sxm", tp: int = 1) -> InstanceKind:
    return make_instance(read_model(model), load_gpu(gpu), Parallelism(tp))


def work(kind: InstanceKind, chunks: Sequence[Chunk] = (), batch: int = 0, context: float = 0.0) -> Found:
    """FLOPs and bytes, in L2 or not, of a step by the name of the operator."""
    found: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for load in step_loads(kind, chunks, len(chunks), batch, context):
        flop, moved = found[load.name]
        found[load.name] = flop + load.runs * load.flop, moved + load.runs * load.bytes_moved
    return dict(found)


def apart(kind: InstanceKind, chunk: Chunk, batch: int, context: float) -> Found:
    """The same of a chunk and of decodes, each in a step of its own."""
    return work(kind, batch=batch, context=context) | work(kind, (chunk,))


def both(kind: InstanceKind, chunk: Chunk, batch: int, context: float) -> tuple[float, float]:
    """FLOPs and bytes of the attention of a chunk and decodes, which a mixed step does together."""
    found = apart(kind, chunk, batch, context)
    parts = found["prefill attention"], found["decode attention"]
    return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]


def product(tokens: int, inputs: int, outputs: int, each: float = 2) -> tuple[float, float]:
    """A matrix product: two FLOPs a weight and token; weights, inputs and outputs once."""
    return 2 * tokens * inputs * outputs, inputs * outputs * each + 2 * tokens * (inputs + outputs)


# Attention.

FULL = Attention(heads=6, kv_heads=2, head_dim=16)


def attention_of_a_chunk(chunk: Chunk, seen: Sequence[Sequence[int]]) -> tuple[float, float]:
    """6 query and 2 KV heads of 16; ``seen``: the positions that each token of the chunk attends to."""
    pairs = sum(len(positions) for positions in seen)
    read = {position for positions in seen for position in positions}
    # keys and values of the prefix that are seen, and those of the chunk itself
    cached = len(read | set(range(chunk.prefix, chunk.prefix + chunk.tokens)))
    return 2 * 6 * (16 + 16) * pairs, 2 * chunk.tokens * 6 * 32 + 2 * cached * 2 * 32


PIECES = [Chunk(7), Chunk(2, 9), Chunk(5, 10), Chunk(23, 4), Chunk(10, 10), Chunk(31, 35)]


@pytest.mark.parametrize("chunk", PIECES)
def test_a_window_shows_the_last_tokens(chunk: Chunk) -> None:
    positions = range(chunk.prefix, chunk.prefix + chunk.tokens)
    seen = [range(max(0, at - 9), at + 1) for at in positions]
    found = work(tiny(replace(FULL, window=10), count=3), (chunk,))["prefill attention"]
    flop, moved = attention_of_a_chunk(chunk, seen)
    assert found == (3 * flop, 3 * moved)


@pytest.mark.parametrize("chunk", PIECES)
def test_attention_chunks_start_at_multiples_of_the_window(chunk: Chunk) -> None:
    positions = range(chunk.prefix, chunk.prefix + chunk.tokens)
    seen = [range(at // 10 * 10, at + 1) for at in positions]
    found = work(tiny(replace(FULL, window=10, chunked=True), count=3), (chunk,))["prefill attention"]
    flop, moved = attention_of_a_chunk(chunk, seen)
    assert found == (3 * flop, 3 * moved)


def test_decodes_read_windows_and_on_average_half_of_an_attention_chunk() -> None:
    def read(mixer: Attention, batch: int, context: float) -> float:
        flop, moved = work(tiny(mixer), batch=batch, context=context)["decode attention"]
        tokens = flop / (2 * 6 * 32)
        assert moved == tokens * 2 * 2 * 32 + 2 * batch * 6 * 32
        return tokens

    window, chunks = replace(FULL, window=10), replace(FULL, window=10, chunked=True)
    assert [read(FULL, 4, 400), read(window, 4, 400), read(window, 4, 12)] == [400, 40, 12]
    # a mixed step does the same at once
    for mixer in (FULL, window, chunks):
        kind = tiny(mixer, count=3)
        assert work(kind, (Chunk(23, 44),), 4, 400)["mixed attention"] == both(kind, Chunk(23, 44), 4, 400)
    # over all places in a chunk of 10, a token sees 1, 2 ... 10 tokens
    mean = sum(range(1, 11)) / 10
    assert read(chunks, 4, 400) == 4 * mean
    assert [read(chunks, 4, 12), read(chunks, 4, 30)] == [12, 30]


def test_values_of_another_width_than_keys() -> None:
    kind = tiny(replace(FULL, v_dim=8))
    mixed = work(kind, (Chunk(5, 20),), batch=2, context=30)
    assert mixed["qkv"] == product(7, HIDDEN, 6 * 16 + 2 * 16 + 2 * 8)
    assert mixed["attn_out"] == product(7, 6 * 8, HIDDEN)
    assert mixed["mixed attention"] == both(kind, Chunk(5, 20), 2, 30)
    found = apart(kind, Chunk(5, 20), 2, 30)
    pairs = sum(range(21, 26))
    assert found["prefill attention"] == (2 * 6 * 24 * pairs, 2 * (5 * 6 * 24 + 25 * 2 * 24))
    assert found["decode attention"] == (2 * 6 * 24 * 30, 2 * (30 * 2 * 24 + 2 * 6 * 24))
    # MiMo-V2-Flash, 9 full layers: 64 heads of 192 and 128, 4 KV heads; 39 with 8 and a window of 128
    flop, moved = work(packaged("XiaomiMiMo/MiMo-V2-Flash"), batch=1, context=1000)["decode attention"]
    assert flop == 2 * 64 * 320 * (9 * 1000 + 39 * 128)
    assert moved == 2 * 320 * (9 * (4 * 1000 + 64) + 39 * (8 * 128 + 64))


def test_output_gate_widens_the_query_projection() -> None:
    plain, gated = work(tiny(FULL), (Chunk(5),)), work(tiny(replace(FULL, output_gate=True)), (Chunk(5),))
    assert plain["qkv"] == product(5, HIDDEN, (6 + 2 + 2) * 16)
    assert gated["qkv"] == product(5, HIDDEN, (6 + 6 + 2 + 2) * 16)
    # gate and output read, product written
    assert gated["output gate"] == (0, 3 * 5 * 6 * 16 * 2) and "output gate" not in plain
    assert {name: gated[name] for name in plain if name != "qkv"} == {
        name: plain[name] for name in plain if name != "qkv"
    }


def test_shared_kv_saves_products_and_not_reads() -> None:
    own, shared = (work(tiny(mixer), (Chunk(5, 20),), 2, 30) for mixer in (FULL, replace(FULL, own_kv=False)))
    assert own["qkv"] == product(7, HIDDEN, (6 + 2 + 2) * 16)
    assert shared["qkv"] == product(7, HIDDEN, 6 * 16)
    # only queries are rotated
    assert (own["rope"][1], shared["rope"][1]) == (2 * 7 * (6 + 2) * 16 * 2, 2 * 7 * 6 * 16 * 2)
    for name in ("mixed attention", "attn_out"):
        assert own[name] == shared[name]


def test_values_from_keys_save_the_value_projection_alone() -> None:
    own, both = (
        work(tiny(FULL), (Chunk(5),), 2, 30),
        work(tiny(replace(FULL, value_from_key=True)), (Chunk(5),), 2, 30),
    )
    assert both["qkv"] == product(7, HIDDEN, (6 + 2) * 16)
    assert {name for name in own if own[name] != both[name]} == {"qkv"}


def test_biases_and_sinks_are_no_work() -> None:
    full = replace(FULL, qkv_bias=True, out_bias=True, sinks=True, norm_parameters=32)
    plain, rich = tiny(FULL, Dense(32)), tiny(full, Dense(32, bias=True))
    assert work(plain, (Chunk(5, 9),), 2, 30) == work(rich, (Chunk(5, 9),), 2, 30)
    routed = Experts(8, 2, 32)
    biased = replace(routed, bias=True, router_bias=True, router_parameters=96)
    assert work(tiny(routed), (Chunk(5),)) == work(tiny(biased), (Chunk(5),))


# Sparse attention (DSA).

SPARSE = LatentAttention(
    heads=4, q_rank=24, kv_rank=32, nope_dim=16, rope_dim=8, v_dim=16, indexer=Indexer(3, 128), top_k=10
)


@pytest.mark.parametrize("chunk", [Chunk(7), Chunk(1, 9), Chunk(6, 7), Chunk(5, 50)])
def test_sparse_attention_of_a_chunk(chunk: Chunk) -> None:
    found = work(tiny(SPARSE, count=2), (chunk,))
    tokens, cached = chunk.tokens, chunk.prefix + chunk.tokens
    positions = range(chunk.prefix, cached)
    chosen = sum(min(at + 1, 10) for at in positions)
    # scores of latent and rotary key, the weighted sum of latents; each latent read at most once
    flop = 2 * 4 * (32 + 8 + 32) * chosen
    assert found["sparse attention"] == (2 * flop, 2 * 2 * (cached * 40 + tokens * 4 * 72))
    # every cached key is scored: 3 heads of 128; 128 fp8 values and a 4-byte scale are read
    scored = sum(at + 1 for at in positions)
    assert found["indexer scores"] == (2 * 2 * 3 * 128 * scored, 2 * 132 * cached)
    assert not {"kv_b prefix", "latent gather", "prefill attention"} & set(found)


def test_sparse_attention_of_decodes() -> None:
    found = work(tiny(SPARSE), batch=3, context=300)
    assert found["decode attention"] == (2 * 4 * 72 * 3 * 10, 2 * (3 * 10 * 40 + 3 * 4 * 72))
    assert found["indexer scores"] == (2 * 3 * 128 * 300, 132 * 300)
    few = work(tiny(SPARSE), batch=3, context=12)
    assert few["decode attention"] == (2 * 4 * 72 * 12, 2 * (12 * 40 + 3 * 4 * 72))


def test_projections_of_the_indexer_are_whole_on_every_gpu() -> None:
    for tp in (1, 2):
        found = work(tiny(SPARSE, tp=tp), (Chunk(5),))
        assert found["indexer q"] == product(5, 24, 3 * 128)
        assert found["indexer k"] == product(5, HIDDEN, 128)
        assert found["indexer weights"] == product(5, HIDDEN, 3)
        assert found["indexer scores"][1] == 132 * 5
        assert found["q_a"] == product(5, HIDDEN, 24)
        assert found["q_b"] == product(5, 24, 4 // tp * 24)
        assert found["kv_b"] == product(5, 32, 4 // tp * 32)


def test_a_layer_without_an_indexer_uses_the_choice_of_another() -> None:
    found = work(tiny(replace(SPARSE, indexer=None)), (Chunk(5, 50),), 2, 100)
    assert not any(name.startswith("indexer") for name in found)
    assert found["sparse attention"][0] == 2 * 4 * 72 * 5 * 10
    assert found["decode attention"][0] == 2 * 4 * 72 * 2 * 10


def test_latents_of_the_cache_layouts() -> None:
    # 512 + 64 elements: 656 and 352 bytes; Q and O of 4 heads stay at two bytes
    mixer = LatentAttention(heads=4, q_rank=None, kv_rank=512, nope_dim=16, rope_dim=64, v_dim=16)
    for kv_dtype, each in (("bf16", 1152), ("fp8", 576), ("fp8_ds_mla", 656), ("nvfp4_ds_mla", 352)):
        found = work(tiny(mixer, kv_dtype=kv_dtype), (Chunk(5, 20),), 2, 30)
        assert found["decode attention"][1] == pytest.approx(30 * each + 2 * 2 * 4 * 1088, rel=1e-12)
        assert found["latent gather"][1] == pytest.approx(20 * (each + 1152), rel=1e-12)
    # on an H100 so few tokens attend in the latent space: latents of the cache as they are
    layer = Layer(1, (mixer,), 0)
    model = Model("tiny", "tiny", HIDDEN, VOCAB, (layer,), False, "bf16", None, "here")
    for kv_dtype, each in (("bf16", 1152), ("fp8_ds_mla", 656)):
        found = work(make_instance(model, load_gpu("h100-sxm"), kv_dtype=kv_dtype), (Chunk(5, 20),))
        assert "latent gather" not in found
        flop, moved = found["prefill attention"]
        assert flop == 2 * 4 * 1088 * sum(range(21, 26))
        assert moved == pytest.approx(25 * each + 2 * 5 * 4 * 1088, rel=1e-12)


# Recurrent mixers.


def recurrent(
    kind: InstanceKind, name: str, count: int, heads: int, key: int, value: int, macs: int, state: int
) -> None:
    """Check the states of ``count`` layers: 150 tokens are three chunks of at most 64; five decodes."""
    found = work(kind, (Chunk(150),), batch=5, context=1)
    within = 64 * (key + value) if name != "Mamba-1" else 0
    flop = 2 * 150 * heads * (macs * key * value + within)
    moved = 2 * 3 * state + 2 * 150 * heads * value * 2
    assert found["state scan"] == pytest.approx((count * flop, count * moved), rel=1e-12)
    assert found["state update"] == (count * 2 * 5 * heads * macs * key * value, count * 2 * 5 * state)


def test_gated_delta_net() -> None:
    # Qwen3-Next, 36 of 48 layers: q and k of 16 heads of 128, v and z of 32; b and a of 32 each
    kind = packaged("Qwen/Qwen3-Next-80B-A3B-Instruct")
    found = work(kind, (Chunk(10),))
    assert found["in_proj_qkvz"] == tuple(36 * part for part in product(10, 2048, 2 * 2048 + 2 * 4096))
    assert found["in_proj_ba"] == tuple(36 * part for part in product(10, 2048, 64))
    assert found["out_proj"] == tuple(36 * part for part in product(10, 4096, 2048))
    assert found["convolution"] == (0, 36 * 2 * 10 * 8192 * 2)
    assert found["gated norm"] == (0, 36 * 3 * 10 * 4096 * 2)
    # the delta rule reads the state, corrects it and reads it again
    state = 2 * (32 * 128 * 128 + 3 * 8192)
    recurrent(kind, "gated delta net", 36, 32, 128, 128, 3, state)
    # on four GPUs: a quarter of heads, channels and states
    spread = packaged("Qwen/Qwen3-Next-80B-A3B-Instruct", tp=4)
    quarter = work(spread, (Chunk(10),))
    assert quarter["in_proj_qkvz"] == tuple(36 * part for part in product(10, 2048, 3072))
    assert quarter["convolution"] == (0, 36 * 2 * 10 * 2048 * 2)
    assert quarter["gated norm"] == (0, 36 * 3 * 10 * 1024 * 2)
    recurrent(spread, "gated delta net", 36, 8, 128, 128, 3, state // 4)


def test_mamba_1() -> None:
    # Jamba-1.5-Mini, 28 of 32 layers: 8,192 channels of 16 states, a step size of rank 256
    kind = packaged("ai21labs/AI21-Jamba-1.5-Mini")
    found = work(kind, (Chunk(10),))
    assert found["in_proj"] == tuple(28 * part for part in product(10, 4096, 2 * 8192))
    assert found["x_proj"] == tuple(28 * part for part in product(10, 8192, 256 + 2 * 16))
    assert found["dt_proj"] == tuple(28 * part for part in product(10, 256, 8192))
    assert found["out_proj"] == tuple(28 * part for part in product(10, 8192, 4096))
    recurrent(kind, "Mamba-1", 28, 8192, 16, 1, 2, 2 * (8192 * 16 + 3 * 8192))


def test_mamba_2() -> None:
    # granite-4.0-h-1b, 36 of 40 layers: 48 heads of 64, states of 128; the one group of B and C is repeated
    kind = packaged("ibm-granite/granite-4.0-h-1b")
    assert work(kind, (Chunk(10),))["in_proj"] == tuple(36 * p for p in product(10, 1536, 6144 + 48 + 256))
    recurrent(kind, "Mamba-2", 36, 48, 128, 64, 2, 2 * (48 * 128 * 64 + 3 * (3072 + 256)))
    half = work(packaged("ibm-granite/granite-4.0-h-1b", tp=2), (Chunk(10),))
    assert half["in_proj"] == tuple(36 * p for p in product(10, 1536, 3072 + 24 + 256))
    assert half["out_proj"] == tuple(36 * p for p in product(10, 1536, 1536))


def test_kimi_delta_attention() -> None:
    # Kimi-Linear-48B, 20 of 27 layers: 32 heads of 128; q, k, v, b and the decay's first half in one product
    kind = packaged("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    found = work(kind, (Chunk(10),))
    assert found["in_proj"] == tuple(20 * part for part in product(10, 2304, 3 * 4096 + 32 + 128))
    assert found["f_b_proj"] == found["g_b_proj"] == tuple(20 * p for p in product(10, 128, 4096))
    assert found["g_a_proj"] == tuple(20 * part for part in product(10, 2304, 128))
    assert found["o_proj"] == tuple(20 * part for part in product(10, 4096, 2304))
    # states in fp32, the convolution's in bf16
    recurrent(kind, "KDA", 20, 32, 128, 128, 3, 4 * 32 * 128 * 128 + 2 * 3 * 3 * 4096)


def test_lightning_attention() -> None:
    # MiniMax-Text-01, 70 of 80 layers: 64 heads of 128, no convolution
    model = read_model("MiniMaxAI/MiniMax-Text-01")
    kind = make_instance(model, load_gpu("h100-sxm"), dtype="bf16")
    found = work(kind, (Chunk(10),))
    assert found["qkv_proj"] == tuple(70 * part for part in product(10, 6144, 3 * 8192))
    assert found["output_gate"] == tuple(70 * part for part in product(10, 6144, 8192))
    assert found["out_proj"] == tuple(70 * part for part in product(10, 8192, 6144))
    assert "convolution" not in found
    recurrent(kind, "lightning attention", 70, 64, 128, 128, 2, 2 * 64 * 128 * 128)


def test_times_of_states() -> None:
    # not measured; fits of attention on an A100 stand in: 0.6005 of 312 TFLOP/s and 7.548 us of a prefill, 0.7125 of
    # 2,039 GB/s of decodes
    kind = packaged("ibm-granite/granite-4.0-h-1b", "a100-sxm-80gb")
    state = 2 * (48 * 128 * 64 + 3 * 3328)
    (update,) = (op for op in analyse_step(kind, batch=5, context=5).operators if op.name == "state update")
    flop, moved = 2 * 5 * 48 * 2 * 128 * 64, 2 * 5 * state
    each = flop / (0.6005 * 312e12) + moved / (0.7125 * 2039e9) + 7.548e-6
    assert update.kind == "unmeasured" and update.time_s == pytest.approx(36 * each, rel=1e-12)
    (scan,) = (op for op in analyse_step(kind, (Chunk(150),)).operators if op.name == "state scan")
    # three chunks of at most 64 tokens, which also attend to each other
    flop = 2 * 150 * 48 * (2 * 128 * 64 + 64 * (128 + 64))
    moved = 2 * 3 * state + 2 * 150 * 48 * 64 * 2
    each = flop / (0.6005 * 312e12) + moved / (0.7125 * 2039e9) + 7.548e-6
    assert scan.kind == "unmeasured" and scan.time_s == pytest.approx(36 * each, rel=1e-12)


def test_short_chunks_scan_what_they_have() -> None:
    mixer = Recurrent(
        "toy", 4, 8, 2, 0, 1, 3, (Tensor("mixer.in", 16, HIDDEN, parts=4), vector("mixer.b", 4))
    )
    found = work(tiny(mixer), (Chunk(10),))
    # 10 tokens against each other: keys of 8, values of 2
    assert found["state scan"][0] == 2 * 10 * 4 * (3 * 8 * 2 + 10 * (8 + 2))
    assert work(tiny(replace(mixer, chunked_scan=False)), (Chunk(10),))["state scan"][0] == 2 * 10 * 4 * 48
    assert found["in"] == product(10, HIDDEN, 16)


# Feed-forward blocks.


def test_experts_of_two_matrices() -> None:
    # 5 tokens of 2 of 8 experts hit 8 (1 - (3/4)^5) of them (a gamma law of loads that hardly vary: a hair fewer);
    # gate and up are one matrix
    routed = Experts(8, 2, 32, matrices=2)
    flop, moved = work(tiny(routed), (Chunk(5),))["experts"]
    hit = 8 * (1 - 0.75**5)
    assert flop == 2 * 5 * 2 * 2 * HIDDEN * 32
    activations = 2 * (5 * 2 * (3 * HIDDEN + 3 * 32) + 5 * HIDDEN)
    assert moved == pytest.approx(hit * 2 * HIDDEN * 32 * 2 + activations, rel=1e-6)
    three = work(tiny(replace(routed, matrices=3)), (Chunk(5),))["experts"]
    assert three[0] == flop * 3 / 2
    assert three[1] - moved == pytest.approx(hit * HIDDEN * 32 * 2, rel=1e-6)


def test_shared_experts_and_their_gate() -> None:
    found = work(tiny(Experts(8, 2, 32, shared_width=64, shared_gate=True)), (Chunk(5),))
    assert found["shared_up"] == product(5, HIDDEN, 2 * 64)
    assert found["shared_down"] == product(5, 64, HIDDEN)
    assert found["shared gate"] == product(5, HIDDEN, 1)
    assert found["router"] == product(5, HIDDEN, 8)
    assert "shared gate" not in work(tiny(Experts(8, 2, 32, shared_width=64)), (Chunk(5),))


def test_latent_experts_work_on_a_projection() -> None:
    # the router and shared experts see the hidden state, routed experts 24 elements of it
    routed = Experts(8, 2, 32, shared_width=64, matrices=2, latent=24)
    found = work(tiny(routed), (Chunk(5),))
    assert found["experts_in"] == product(5, HIDDEN, 24)
    assert found["experts_out"] == product(5, 24, HIDDEN)
    hit = 8 * (1 - 0.75**5)
    assert found["experts"] == pytest.approx(
        (2 * 5 * 2 * 2 * 24 * 32, hit * 2 * 24 * 32 * 2 + 2 * (5 * 2 * 3 * (24 + 32) + 5 * 24)), rel=1e-6
    )
    assert found["router"] == product(5, HIDDEN, 8)
    assert found["shared_up"] == product(5, HIDDEN, 64)


def test_a_layer_of_attention_dense_and_experts() -> None:
    # three norms a layer, three sums over the GPUs, each block in full
    kind = tiny(FULL, Dense(64), Experts(8, 2, 32), count=4, tp=2)
    step = analyse_step(kind, (Chunk(5),))
    found = work(kind, (Chunk(5),))
    assert found["mlp_up"] == tuple(4 * part for part in product(5, HIDDEN, 2 * 32))
    assert found["experts"][0] == 4 * 2 * 5 * 2 * 3 * HIDDEN * 16
    assert found["norm"][1] == 4 * 3 * 4 * 5 * HIDDEN * 2
    assert sum(op.count for op in step.operators if op.name == "all-reduce") == 4 * 3


def test_layers_of_a_single_block() -> None:
    # Nemotron-3-Nano: 23 Mamba-2, 23 experts, 6 attention layers; one norm and one sum each
    step = analyse_step(packaged("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", tp=2), (Chunk(10),))
    count: dict[str, float] = defaultdict(float)
    for operator in step.operators:
        count[operator.name] += operator.count
    assert (count["norm"], count["all-reduce"]) == (52, 52)
    assert (count["state scan"], count["experts"], count["prefill attention"]) == (23, 23, 6)
    alone = tiny(Dense(64), count=3)
    assert set(work(alone, (Chunk(5),))) == {"embedding", "norm", "mlp_up", "mlp_act", "mlp_down", "lm_head"}


# Formats of weights.


def kinds(kind: InstanceKind) -> dict[str, str]:
    return {op.name: op.kind for op in analyse_step(kind, (Chunk(10),)).operators}


def test_mxfp4_experts_and_nothing_else() -> None:
    # gpt-oss-20b, 24 layers: 32 experts of three 2,880 x 2,880, 4 bits and a byte for 32 weights: 17/32 byte;
    # attention of 64 query and 8 KV heads of 64 stays at two bytes
    kind = packaged("openai/gpt-oss-20b")
    found = work(kind, (Chunk(10),))
    assert found["qkv"] == tuple(24 * part for part in product(10, 2880, 80 * 64))
    hit = 32 * (1 - (28 / 32) ** 10)
    activations = 2 * (10 * 4 * 6 * 2880 + 10 * 2880)
    assert found["experts"][1] == pytest.approx(24 * (hit * 3 * 2880**2 * 17 / 32 + activations), rel=1e-6)
    assert {kinds(kind)[name] for name in ("qkv", "attn_out", "router", "lm_head")} == {"gemm"}
    assert kinds(kind)["experts"] == "moe"  # widened before they are multiplied


def test_int4_groups() -> None:
    # Qwen3-32B-AWQ, 64 layers: 4 bits, a 2-byte scale and a 4-bit zero point for 128 weights: 66.5 / 128 byte
    kind = packaged("Qwen/Qwen3-32B-AWQ")
    found = work(kind, (Chunk(10),))
    for name, sides in (("qkv", (5120, 80 * 128)), ("mlp_up", (5120, 51_200)), ("mlp_down", (25_600, 5120))):
        assert found[name] == tuple(64 * part for part in product(10, *sides, each=66.5 / 128))
    assert found["lm_head"] == product(1, 5120, 151_936)
    assert {kinds(kind)[name] for name in ("qkv", "mlp_up", "lm_head")} == {"gemm"}


def test_nvfp4_by_module() -> None:
    # DeepSeek-V3.1-NVFP4: 4 bits and a byte for 16 weights in experts, blocks and out-projections, 9/16 byte;
    # the other projections of attention are wide
    kind = packaged("nvidia/DeepSeek-V3.1-NVFP4", tp=8)
    found = work(kind, (Chunk(10),))
    assert found["attn_out"] == tuple(61 * part for part in product(10, 16 * 128, 7168, each=9 / 16))
    assert found["mlp_down"] == tuple(3 * part for part in product(10, 18_432 // 8, 7168, each=9 / 16))
    assert found["shared_down"] == tuple(58 * part for part in product(10, 2048 // 8, 7168, each=9 / 16))
    assert found["kv_b"] == tuple(61 * part for part in product(10, 512, 16 * 256))
    assert {kinds(kind)[name] for name in ("attn_out", "kv_b", "mlp_down")} == {"gemm"}
    # Nemotron-3-Nano-NVFP4 leaves the in_proj of 6 of 23 Mamba-2 layers in 16 bits
    nano = work(packaged("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"), (Chunk(10),))
    parts = zip(product(10, 2688, 10_304, each=9 / 16), product(10, 2688, 10_304))
    assert nano["in_proj"] == tuple(17 * narrow + 6 * wide for narrow, wide in parts)


def test_dtype_of_the_product_picks_the_fit() -> None:
    # fp8 in blocks of 128 x 128 with a 4-byte scale; router and head in 16 bits
    kind = packaged("Qwen/Qwen3-30B-A3B-FP8")
    names = kinds(kind)
    assert {names[name] for name in ("qkv", "attn_out")} == {"gemm_fp8"} and names["experts"] == "moe_fp8"
    assert {names[name] for name in ("router", "lm_head")} == {"gemm"}
    assert work(kind, (Chunk(10),))["attn_out"] == tuple(
        48 * part for part in product(10, 4096, 2048, each=1 + 4 / 128**2)
    )
    # int8 with a scale a row, too little to count: its products take the fits of fp8
    w8a8 = packaged("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8")
    assert kinds(w8a8)["mlp_up"] == "gemm_fp8"
    assert work(w8a8, (Chunk(10),))["mlp_down"] == tuple(32 * p for p in product(10, 14_336, 4096, each=1))


def test_int8_on_a_gpu_without_a_fit_borrows_that_of_fp8() -> None:
    # the A100 has an int8 peak, but no measured 8-bit product: the H100's of the next generation stands in
    kind = packaged("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "a100-sxm-80gb")
    assert kind.product_peak == 624e12
    assert kinds(kind)["mlp_down"] == "gemm_fp8"
    assert kind.efficiency.operators["gemm_fp8"].borrowed == "h100-sxm"
    # 10 tokens: 64 tiles of 64 x 64 are 0.593 waves and 0.4 of the rest, 0.756; small tiles cost 1 + 128 / 32 = 5,
    # the largest 2.5: 47 us at 0.6518, longer than the weights at 0.8863, 33 us; 5.318 us; quantised at 0.3297
    (down,) = (op for op in analyse_step(kind, (Chunk(10),)).operators if op.name == "mlp_down")
    waves = 64 / 108 + 0.4 * (1 - 64 / 108)
    arithmetic = 2 * 64 * 64 * 108 * waves * (14_336 + 96) * 5 / 2.5 / (0.6518 * 624e12)
    streaming = (14_336 * 4096 + 10 * 14_336 + 10 * 4096 * 2) / (0.8863 * 2039e9)
    each = arithmetic + streaming**2 / arithmetic / 4 + 5.318e-6 + 10 * 14_336 * 3 / (0.3297 * 2039e9)
    assert down.time_s == pytest.approx(32 * each, rel=1e-12)


def test_a_prefix_is_expanded_in_each_layers_own_format() -> None:
    # the same mixer, expanded from fp8 in two layers and from 16 bits in three
    mixer = LatentAttention(heads=4, q_rank=None, kv_rank=32, nope_dim=16, rope_dim=8, v_dim=16)
    fp8 = WeightFormat("fp8", 8, product_dtype="fp8")
    layers = Layer(2, (mixer,), 0, (("self_attn.kv_b_proj", fp8),)), Layer(3, (mixer,), 0)
    model = Model("two", "two", HIDDEN, VOCAB, layers, False, "fp8", None, "here", wide_dtype="bf16")
    # more tokens than the kernels of an H100 take in the latent space
    step = analyse_step(make_instance(model, load_gpu("h100-sxm")), (Chunk(513, 20),))
    found = {op.kind: (op.count, op.flop, op.bytes) for op in step.operators if op.name == "kv_b prefix"}
    narrow, wide = product(20, 32, 4 * 32, each=1), product(20, 32, 4 * 32)
    assert found == {
        "gemm_fp8": (2, 2 * narrow[0], 2 * narrow[1]),
        "gemm": (3, 3 * wide[0], 3 * wide[1]),
    }
