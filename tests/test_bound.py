"""Physical bounds of steps: published sizes by hand, and no estimate below its bound over random models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.efficiency import efficiency_for
from costmodel.inputs.formats import WeightFormat
from costmodel.inputs.hardware import Gpu, gpu_names, load_gpu
from costmodel.inputs.model import (
    Attention,
    Dense,
    Experts,
    FeedForward,
    Indexer,
    LatentAttention,
    Layer,
    Mixer,
    Model,
    Recurrent,
)
from costmodel.inputs.tensor import Tensor, vector
from costmodel.inputs.weights import layer_tensors
from costmodel.memory.parallelism import Parallelism, divides
from costmodel.operators.catalogue import STREAMS
from costmodel.serving.bound import step_bound
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.operators import peak
from costmodel.serving.step import analyse_step
from costmodel.serving.work import Chunk

A100 = {"flop": 312e12, "byte": 2039e9}
H100 = {"flop": 989e12, "byte": 3350e9}

# Weights a token multiplies, by hand from the published configurations.
# Llama-3.1-8B: q and o 4096 x 4096, k and v 4096 x 1024, three of 4096 x 14336; 32 layers.
LLAMA = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
LLAMA_HEAD = 4096 * 128256
# DeepSeek-V2-Lite: q 2048 x 3072 (16 heads of 192), latent 2048 x 576, expansion 512 x 4096, o 2048 x 2048.
V2_LITE_MIXER = 2048 * 3072 + 2048 * 576 + 512 * 4096 + 2048 * 2048
# One dense layer of width 10944; 26 with a router of 64, 6 experts of 1408 and two shared ones.
V2_LITE = 27 * V2_LITE_MIXER + 3 * 2048 * 10944 + 26 * 2048 * (64 + 3 * 1408 * (6 + 2))
V2_LITE_HEAD = 2048 * 102400


@lru_cache
def gpu(name: str) -> Gpu:
    return load_gpu(name)


@lru_cache
def instance(model: str, name: str, dtype: str | None = None, tp: int = 1) -> InstanceKind:
    return make_instance(read_model(model), gpu(name), Parallelism(tp), dtype=dtype)


@pytest.mark.parametrize(
    ("name", "peaks", "published_ms"), [("a100-sxm-80gb", A100, 422.9), ("h100-sxm", H100, 133.4)]
)
def test_bound_of_a_long_llama_prompt(name: str, peaks: dict[str, float], published_ms: float) -> None:
    tokens = 8192
    # 2 FLOPs a weight and token, one row of the head, 4 x heads x head_dim per query-key pair and layer:
    # 1.1435e14 + 1.05e9 + 32 x 4 x 32 x 128 x 8192 x 8193 / 2 = 1.7594e13, in all 1.3194e14
    flop = 2 * (tokens * LLAMA + LLAMA_HEAD) + 32 * 4 * 32 * 128 * tokens * (tokens + 1) / 2
    found = step_bound(instance("meta-llama/Llama-3.1-8B", name), (Chunk(tokens),), 1, 0, 0)
    assert found.flop == flop
    assert found.time_s == pytest.approx(flop / peaks["flop"], rel=1e-12)
    assert found.time_s * 1e3 == pytest.approx(published_ms, abs=0.05)


@pytest.mark.parametrize(("tokens", "ms"), [(512, 7.5), (2048, 31.3), (8192, 147.5), (32768, 946.6)])
def test_bound_of_v2_lite_on_an_a100(tokens: int, ms: float) -> None:
    # Expanded MLA: 2 x 16 heads x (128 + 64 + 128) FLOPs a pair. At 512 tokens:
    # 2 x 512 x 2,241,593,344 + 2 x 209,715,200 + 27 x 10,240 x 131,328 = 2.3321e12, 7.475 ms;
    # its bytes, 2 x (2,241,593,344 + 209,715,200) = 4.90 GB, take 2.40 ms.
    flop = 2 * (tokens * V2_LITE + V2_LITE_HEAD) + 27 * 2 * 16 * 320 * tokens * (tokens + 1) / 2
    found = step_bound(instance("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"), (Chunk(tokens),), 1, 0, 0)
    assert found.flop == flop
    assert found.bytes_moved == 2 * (V2_LITE + V2_LITE_HEAD)
    assert found.time_s == pytest.approx(flop / A100["flop"], rel=1e-3)
    assert found.time_s * 1e3 == pytest.approx(ms, abs=0.05)


def test_streaming_every_expert_is_an_estimate_and_no_bound() -> None:
    # All 15,706,484,224 weights at two bytes over 2,039 GB/s: 15.406 ms
    streamed = 15_706_484_224 * 2 / A100["byte"]
    assert streamed * 1e3 == pytest.approx(15.4, abs=0.05)
    kind = instance("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb")
    assert step_bound(kind, (Chunk(512),), 1, 0, 0).time_s < streamed
    assert analyse_step(kind, (Chunk(512),)).time_s > streamed


def test_bound_of_a_decode_step_is_its_bytes() -> None:
    # Weights and head once, 131,072 bytes of KV a token: 15.01 GB + 16 x 1000 x 131,072 = 17.11 GB, 8.39 ms
    kind = instance("meta-llama/Llama-3.1-8B", "a100-sxm-80gb")
    found = step_bound(kind, (), 0, 16, 16_000)
    assert found.bytes_moved == 2 * (LLAMA + LLAMA_HEAD) + 16_000 * 131_072
    assert found.flop == 2 * 16 * (LLAMA + LLAMA_HEAD) + 32 * 4 * 32 * 128 * 16_000
    assert found.time_s == found.memory_s == found.bytes_moved / A100["byte"]


def test_bound_of_v2_lite_decodes_reads_latents() -> None:
    # Absorbed: 2 x 16 x (2 x 512 + 64) FLOPs and 576 elements of two bytes a cached token and layer.
    kind = instance("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb")
    found = step_bound(kind, (), 0, 4, 4_000)
    assert found.bytes_moved == 2 * (V2_LITE + V2_LITE_HEAD) + 27 * 4_000 * 576 * 2
    assert found.flop == 2 * 4 * (V2_LITE + V2_LITE_HEAD) + 27 * 2 * 16 * 1088 * 4_000


def test_bound_of_a_latent_chunk_takes_the_cheaper_of_two_ways() -> None:
    # 8 tokens over 1,000: 8,036 pairs. Absorbed 2 x 16 x 1088 = 34,816 a pair, 2.80e8; expanded 10,240 a
    # pair and 2 x 1000 x 512 x 4096 for the prefix, 4.28e9. With 2,048 tokens expanding wins.
    kind = instance("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb")
    few = step_bound(kind, (Chunk(8, 1000),), 0, 0, 0)
    assert few.flop == 2 * 8 * V2_LITE + 27 * 34_816 * 8_036
    many = step_bound(kind, (Chunk(2048, 1000),), 0, 0, 0)
    pairs = sum(1000 + token for token in range(1, 2049))
    assert many.flop == 2 * 2048 * V2_LITE + 27 * (10_240 * pairs + 2 * 1000 * 512 * 4096)


def test_bound_of_a_windowed_chunk_counts_what_the_window_shows() -> None:
    # Mistral-7B-v0.1, window 4096: 300 tokens over 4,000, token by token.
    kind = instance("mistralai/Mistral-7B-v0.1", "a100-sxm-80gb")
    pairs = sum(min(4000 + token, 4096) for token in range(1, 301))
    weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    found = step_bound(kind, (Chunk(300, 4000),), 0, 0, 0)
    assert found.flop == 2 * 300 * weights + 32 * 4 * 32 * 128 * pairs
    # a decode of 10,000 tokens reads 4,096; two of 1,000 read 2,000
    assert step_bound(kind, (), 0, 1, 10_000).flop == 2 * (weights + 4096 * 32000) + 32 * 16384 * 4096
    assert step_bound(kind, (), 0, 2, 2_000).flop == 4 * (weights + 4096 * 32000) + 32 * 16384 * 2000


def test_eight_bit_checkpoints_keep_router_and_head_at_two_bytes() -> None:
    # Matrices at the fp8 peak and one byte; head, router (26 x 2048 x 64) and attention at the 16-bit peak.
    kind = instance("deepseek-ai/DeepSeek-V2-Lite", "h100-sxm", "fp8")
    router = 26 * 2048 * 64
    found = step_bound(kind, (Chunk(100),), 1, 0, 0)
    assert found.bytes_moved == V2_LITE - router + 2 * (router + V2_LITE_HEAD)
    wide = 2 * (100 * router + V2_LITE_HEAD) + 27 * 10_240 * 5_050
    assert found.compute_s == pytest.approx(2 * 100 * (V2_LITE - router) / 1979e12 + wide / 989e12, rel=1e-12)


def test_tensor_parallel_bound_is_shared_evenly() -> None:
    one = step_bound(instance("meta-llama/Llama-3.1-8B", "h100-sxm"), (Chunk(100, 50),), 1, 3, 300)
    four = step_bound(instance("meta-llama/Llama-3.1-8B", "h100-sxm", None, 4), (Chunk(100, 50),), 1, 3, 300)
    assert (four.flop, four.bytes_moved) == (one.flop / 4, one.bytes_moved / 4)
    assert four.time_s == pytest.approx(one.time_s / 4, rel=1e-12)


@pytest.mark.parametrize(("tp", "ep"), [(2, 2), (4, 2), (8, 2), (8, 4), (8, 8)])
@pytest.mark.parametrize(
    "model", ["DeepSeek-V3", "Qwen3-235B-A22B", "gpt-oss-120b", "Mixtral-8x7B-v0.1", "Qwen1.5-MoE-A2.7B"]
)
def test_shared_out_experts_keep_the_bound_of_their_gpus(model: str, tp: int, ep: int) -> None:
    kind = make_instance(read_model(model), gpu("h200-sxm"), Parallelism(tp, ep=ep))
    split = make_instance(read_model(model), gpu("h200-sxm"), Parallelism(tp))
    for chunks, batch, length in [
        ((Chunk(1),), 0, 0),
        ((Chunk(8192),), 0, 0),
        ((), 1, 500),
        ((), 200, 4096),
        ((Chunk(512, 3000), Chunk(40)), 20, 1500),
    ]:
        fewest = step_bound(kind, chunks, len(chunks), batch, batch * length)
        assert fewest == step_bound(split, chunks, len(chunks), batch, batch * length)
        found = analyse_step(kind, chunks, batch=batch, context=batch * length)
        assert found.time_s >= found.bound_s == fewest.time_s
        assert all(operator.time_s >= operator.bound_s for operator in found.operators)
        assert sum(operator.flop for operator in found.operators) >= found.flop * (1 - 1e-12)
        assert found.bytes >= fewest.bytes_moved * (1 - 1e-12)
        assert 0 < found.mfu <= 1 and 0 < found.mbu <= 1


# Random models, instances and steps.

DIMS = st.sampled_from([32, 64, 128, 256])
WIDTHS = st.integers(1, 256).map(lambda n: 64 * n)
HEADS = st.sampled_from([1, 8, 16, 128])


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    kv_heads, group = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.sampled_from([1, 2, 4, 7, 16, 128]))
    window = draw(st.none() | st.sampled_from([1, 100, 4096]))
    values = draw(st.none() | DIMS)
    own = draw(st.booleans())
    return Attention(
        kv_heads * group,
        kv_heads,
        draw(DIMS),
        window,
        chunked=window is not None and draw(st.booleans()),
        v_dim=values,
        qkv_bias=draw(st.booleans()),
        output_gate=draw(st.booleans()),
        own_kv=own,
        value_from_key=own and values is None and draw(st.booleans()),
    )


@st.composite
def latents(draw: st.DrawFn) -> LatentAttention:
    """Dense, sparse with an indexer, or sparse by the choice of an earlier layer's."""
    top_k = draw(st.none() | st.sampled_from([1, 100, 2048]))
    indexer = draw(st.none() | st.builds(Indexer, st.sampled_from([4, 64]), st.sampled_from([32, 128])))
    return LatentAttention(
        heads=draw(HEADS),
        q_rank=draw(st.none() | st.sampled_from([64, 1536])),
        kv_rank=draw(st.sampled_from([64, 512, 2048])),
        nope_dim=draw(DIMS),
        rope_dim=draw(st.sampled_from([16, 64])),
        v_dim=draw(DIMS),
        indexer=None if top_k is None else indexer,
        top_k=top_k,
    )


@st.composite
def recurrents(draw: st.DrawFn) -> Recurrent:
    """A mixer of random products, split by heads, by groups of heads, or not at all."""
    heads = draw(HEADS)
    groups = draw(st.sampled_from([each for each in (1, 8, heads) if heads % each == 0]))
    tensors = []
    for index in range(draw(st.integers(1, 4))):
        parts, axis = draw(st.sampled_from([1, heads, groups])), draw(st.sampled_from([0, 1]))
        sides = [parts * draw(st.integers(1, 64)), draw(st.integers(1, 4096))]
        rows, cols = reversed(sides) if axis else sides
        tensors.append(Tensor(f"mixer.{index}", rows, cols, parts=parts, axis=axis))
    return Recurrent(
        "random",
        heads,
        draw(st.sampled_from([1, 16, 128])),
        draw(st.sampled_from([1, 64, 128])),
        heads * draw(st.integers(0, 64)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from([2, 3])),
        (*tensors, vector("mixer.bias", heads)),
        draw(st.sampled_from([None, "fp32"])),
        groups,
        draw(st.booleans()),
    )


def mixers() -> st.SearchStrategy[Mixer]:
    return attentions() | latents() | recurrents()


def blocks() -> st.SearchStrategy[FeedForward]:
    dense = st.builds(Dense, WIDTHS, st.sampled_from([2, 3]), st.booleans(), st.sampled_from(["mlp", "ffn"]))
    shape = st.sampled_from([(8, 1), (8, 2), (16, 16), (64, 6), (128, 8), (256, 8)])
    routed = st.builds(
        lambda shape, width, shared, gate, matrices, latent: Experts(
            shape[0],
            shape[1],
            width,
            shared,
            shared_gate=gate and shared > 0,
            matrices=matrices,
            latent=latent,
        ),
        shape,
        WIDTHS.map(lambda n: n // 4),
        st.just(0) | WIDTHS,
        st.booleans(),
        st.sampled_from([2, 3]),
        st.none() | st.sampled_from([64, 1024]),
    )
    return dense | routed


FORMATS = {
    "fp8": WeightFormat("fp8", 8, (128, 128), scale_bytes=4, product_dtype="fp8"),
    "int8": WeightFormat("int8", 8, (1, 0), scale_bytes=2, product_dtype="int8"),
    "int4": WeightFormat("int4", 4, (1, 128), scale_bytes=2, zero_bits=4),
    "mxfp4": WeightFormat("mxfp4", 4, (1, 32), scale_bytes=1),
    "nvfp4": WeightFormat("nvfp4", 4, (1, 16), scale_bytes=1, scalars=2),
}


def together(tensor: Tensor) -> str:
    """What an engine multiplies at once has one format: fused products, and the matrices of experts."""
    return tensor.module.rsplit(".", 1)[0] if ".experts." in tensor.module else tensor.packed or tensor.module


@st.composite
def layers(draw: st.DrawFn, stored: str) -> Layer:
    """Some blocks, of which the checkpoint stores some modules in a format of their own."""
    chosen = tuple(draw(st.lists(mixers() | blocks(), min_size=1, max_size=3)))
    if stored not in FORMATS:
        return Layer(draw(st.integers(1, 40)), chosen, 0)
    tensors = layer_tensors(Layer(1, chosen, 0), 128)
    groups = sorted({together(tensor) for tensor in tensors if tensor.kind == "matrix"})
    chosen_wide = draw(st.sets(st.sampled_from(groups)))
    # blocks of one layer may share the name of a module, and with it its format
    shared = {tensor.module for tensor in tensors if together(tensor) in chosen_wide}
    wide = chosen_wide | {together(tensor) for tensor in tensors if tensor.module in shared}
    formats = {
        tensor.module: FORMATS[stored]
        for tensor in tensors
        if tensor.kind == "matrix" and together(tensor) not in wide
    }
    return Layer(draw(st.integers(1, 40)), chosen, 0, tuple(formats.items()))


@st.composite
def models(draw: st.DrawFn, stored: str) -> Model:
    return Model(
        name="random",
        model_type="random",
        hidden=128 * draw(st.integers(1, 64)),
        vocab=draw(st.integers(100, 200_000)),
        layers=tuple(draw(st.lists(layers(stored), min_size=1, max_size=2))),
        tied_embeddings=draw(st.booleans()),
        weight_dtype=stored,
        wide_dtype="bf16",
        max_context=None,
        source="random",
    )


@dataclass(frozen=True)
class Drawn:
    """A step as drawn: chunks, how many of them end their prompt, decodes and their summed context."""

    chunks: tuple[Chunk, ...]
    last: int
    batch: int
    context: float


@st.composite
def steps(draw: st.DrawFn) -> Drawn:
    prefixes = st.just(0) | st.integers(1, 40_000)
    most = draw(st.integers(0, 3))
    chunks = draw(st.lists(st.builds(Chunk, st.integers(1, 9_000), prefixes), min_size=most, max_size=most))
    batch = draw(st.integers(0 if chunks else 1, 256))
    context = batch * draw(st.integers(1, 20_000))
    return Drawn(tuple(chunks), draw(st.integers(0, len(chunks))), batch, context)


def priced(board: Gpu) -> bool:
    """Whether steps have times: some GPU near it was measured, and its file states what forms ask for."""
    try:
        efficiency_for(board)
    except InputError:
        return False
    return all(key in board.values for key in ("peak_bf16", "memory_bandwidth", "sm_count"))


#: Boards with fits of their own, and boards that borrow them.
BOARDS = [name for name in gpu_names() if priced(gpu(name))]


def test_boards_that_borrow_are_among_those_tried() -> None:
    assert {"b200-sxm", "l40s", "a40", "h200-sxm", "a10", "h20", "rtx-4090", "rtx-pro-6000-blackwell"} <= {
        *BOARDS
    }


@st.composite
def instances(draw: st.DrawFn) -> InstanceKind:
    board = gpu(draw(st.sampled_from(BOARDS)))
    narrow = [dtype for dtype in ("fp8", "int8") if f"peak_{dtype}" in board.values]
    wide = [dtype for dtype in ("bf16", "fp16") if f"peak_{dtype}" in board.values]
    stored = draw(st.sampled_from([*wide, "int4", "mxfp4", "nvfp4", *narrow]))
    model = draw(models(stored))
    dtypes = [None] if stored in FORMATS else [*wide, *narrow]
    degrees = (1, 2, 4, 8) if "nvlink_bandwidth" in board.values else (1,)
    routed = any(isinstance(block, Experts) for layer in model.layers for block in layer.blocks)
    layouts = [
        Parallelism(tp, ep=ep) for tp in degrees for ep in degrees if tp % ep == 0 and (routed or ep == 1)
    ]
    layout = draw(st.sampled_from([each for each in layouts if divides(model, each)]))
    kv_dtype = draw(st.sampled_from(["bf16", "fp8", "int8", "fp32"]))
    return make_instance(model, board, layout, dtype=draw(st.sampled_from(dtypes)), kv_dtype=kv_dtype)


def small(mixer: Mixer, kv_dtype: str, board: str = "a100-sxm-80gb") -> InstanceKind:
    """A GPU with a model so narrow that attention is nearly all of its work."""
    layer = Layer(1, (mixer, Dense(64)), 0)
    model = Model("small", "small", 128, 100, (layer,), False, "bf16", None, "small")
    return make_instance(model, gpu(board), kv_dtype=kv_dtype)


# Cases where a term is easily missed: arithmetic of decodes with many query heads a KV head, the read of cached
# latents that are wider than what they are expanded to, and chunks of a mixed call that are far from alike.
LONG_AND_SHORT = Drawn((Chunk(9000), Chunk(1)), 0, 1, 1)
OVER_MUCH = Drawn((Chunk(100), Chunk(1, 40_000)), 0, 1, 1)


@example(small(Attention(32, 8, 128), "bf16"), LONG_AND_SHORT)
@example(small(Attention(32, 8, 128), "bf16"), OVER_MUCH)
@example(small(Attention(32, 8, 128), "bf16", "h100-sxm"), LONG_AND_SHORT)
@example(small(Attention(32, 8, 128), "bf16", "h100-sxm"), OVER_MUCH)
@example(small(Attention(32, 8, 128, 4096), "bf16"), Drawn((Chunk(9000), Chunk(1, 40_000)), 0, 1, 1))
@example(
    small(Attention(32, 8, 128, 8192, chunked=True), "bf16"),
    Drawn((Chunk(4000, 4096), Chunk(4000, 12_288)), 0, 1, 1),
)
@example(small(Attention(256, 1, 128), "fp8"), Drawn((Chunk(1),), 0, 256, 256 * 20_000))
@example(small(Attention(256, 1, 128), "fp8"), Drawn((), 0, 256, 256 * 20_000))
@example(small(LatentAttention(1, None, 512, 16, 16, 16), "fp32"), Drawn((Chunk(1, 40_000),), 0, 0, 0))
@settings(max_examples=150, derandomize=True, deadline=None)
@given(instances(), steps())
def test_no_estimate_is_below_its_bound(kind: InstanceKind, step: Drawn) -> None:
    found = analyse_step(kind, step.chunks, last=step.last, batch=step.batch, context=step.context)
    assert found.time_s >= found.bound_s > 0
    for operator in found.operators:
        assert operator.time_s >= operator.bound_s >= 0 < operator.time_s, operator
        # streams may find all in L2; a module has nothing that must be besides its products and attention
        must = operator.kind not in STREAMS and not operator.kind.startswith("mla_module")
        assert not must or operator.bound_s > 0, operator
    assert math.fsum(operator.time_s for operator in found.operators) == pytest.approx(
        found.time_s, rel=1e-12
    )
    assert 0 < found.mfu <= 1 and 0 < found.mbu <= 1
    assert found.low_s <= found.time_s <= found.high_s
    # the bound counts no work that the operators lack, at the peaks at which each runs
    fewest = step_bound(kind, step.chunks, step.last, step.batch, step.context)
    at_peak = sum(operator.flop / peak(kind, operator.kind) for operator in found.operators)
    assert at_peak >= fewest.compute_s * (1 - 1e-12)
    if kind.product_peak == kind.activation_peak:  # else latents may take the way of more FLOPs and less time
        assert sum(operator.flop for operator in found.operators) >= found.flop * (1 - 1e-12)
    hbm = sum(operator.bytes for operator in found.operators if "all_reduce" not in operator.kind)
    assert hbm == pytest.approx(found.bytes, rel=1e-12)
    assert found.bytes >= fewest.bytes_moved * (1 - 1e-12)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(instances(), steps(), st.integers(1, 500))
def test_more_tokens_never_take_less_work(kind: InstanceKind, step: Drawn, more: int) -> None:
    # in attention chunks the last tokens of one see more than the first of the next
    assume(not any(isinstance(mixer, Attention) and mixer.chunked for mixer, _ in kind.model.mixers))

    def flop(chunks: tuple[Chunk, ...], batch: int, context: float) -> tuple[float, float]:
        found = analyse_step(kind, chunks, last=step.last, batch=batch, context=context)
        bound = step_bound(kind, chunks, step.last, batch, context)
        return sum(operator.flop for operator in found.operators), bound.compute_s

    absorbed = kind.efficiency.operators["mla_prefill"].parameters.get("absorbed_tokens", 0)
    base = flop(step.chunks, step.batch, step.context)
    others = [flop(step.chunks, step.batch + more, step.context + more)]
    for index, chunk in enumerate(step.chunks):
        for grown in (Chunk(chunk.tokens + more, chunk.prefix), Chunk(chunk.tokens, chunk.prefix + more)):
            chunks = (*step.chunks[:index], grown, *step.chunks[index + 1 :])
            # a latent kernel that attends in the latent space up to a length takes fewer FLOPs beyond it
            if not chunk.tokens <= absorbed < grown.tokens:
                others.append(flop(chunks, step.batch, step.context))
    if step.batch:
        others.append(flop(step.chunks, step.batch, step.context + more))
    for other in others:
        assert other[0] >= base[0] and other[1] >= base[1]
