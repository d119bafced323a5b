"""FLOPs and bytes of whole steps against sums over layers, tokens and experts written out here."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.step import analyse_step
from costmodel.serving.work import Chunk, token_loads

GPUS = {name: load_gpu(name) for name in ("a100-sxm-80gb", "h100-sxm")}
LLAMA, MIXTRAL, V2_LITE = (
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V2-Lite",
)


def kind_of(
    model: str, gpu: str = "a100-sxm-80gb", tp: int = 1, dtype: str | None = None, kv_dtype: str | None = None
) -> InstanceKind:
    return make_instance(read_model(model), GPUS[gpu], Parallelism(tp), dtype=dtype, kv_dtype=kv_dtype)


#: L2 of an A100: what an element-wise operator finds there does not pass through HBM.
L2 = 40 * 2**20


class Tally:
    """FLOPs and bytes by operator name, added one layer at a time; two bytes an element."""

    def __init__(self, hidden: int, vocab: int, tokens: int, rows: int) -> None:
        self.flop: dict[str, float] = defaultdict(float)
        self.bytes: dict[str, float] = defaultdict(float)
        self.hidden, self.tokens = hidden, tokens
        self.stream("embedding", hidden, 2)
        self.product("lm_head", rows, hidden, vocab)

    def product(self, name: str, tokens: int, inputs: int, outputs: int) -> None:
        """Two FLOPs a weight and token; weights, inputs and outputs once."""
        parameters = inputs * outputs
        for _ in range(tokens):
            self.flop[name] += 2 * parameters
            self.bytes[name] += 2 * (inputs + outputs)
        self.bytes[name] += 2 * parameters

    def stream(self, name: str, width: int, tensors: int) -> None:
        """Each token passes ``tensors`` times, through memory once L2 is full."""
        self.streamed(name, (2 * width * tensors for _ in range(self.tokens)))

    def streamed(self, name: str, each: Iterable[float]) -> None:
        """One run of an element-wise operator, token by token."""
        self.bytes[name] += max(0, sum(each) - L2)

    def norms(self) -> None:
        """Two a layer: residual and input read, residual and output written."""
        self.stream("norm", self.hidden, 4)
        self.stream("norm", self.hidden, 4)

    def dense(self, name: str, width: int) -> None:
        """Gate and up in one product, their activation, down."""
        self.product(f"{name}_up", self.tokens, self.hidden, 2 * width)
        self.stream(f"{name}_act", width, 3)
        self.product(f"{name}_down", self.tokens, width, self.hidden)

    def experts(self, experts: int, top_k: int, width: int) -> None:
        """The router, and the experts hit: on average each token adds its share of those not hit before."""
        self.product("router", self.tokens, self.hidden, experts)
        hit = 0.0
        for _ in range(self.tokens):
            hit += top_k * (1 - hit / experts)
            for _ in range(top_k):
                self.flop["experts"] += 2 * 3 * self.hidden * width
                # read, gate and up written, their product read, output written, and read by the reduction
                self.bytes["experts"] += 2 * (self.hidden + 2 * width + width + self.hidden + self.hidden)
            self.bytes["experts"] += 2 * self.hidden
        self.bytes["experts"] += hit * 2 * 3 * self.hidden * width


Part = tuple[int, int]  # tokens of a chunk and those cached before it


def grouped(
    hidden: int,
    vocab: int,
    layers: int,
    width: int,
    moe: Part | None,
    parts: Iterable[Part],
    decodes: list[int],
) -> Tally:
    """A model of 32 query and 8 KV heads of 128; ``moe``: experts and top k, ``decodes``: their contexts."""
    parts = list(parts)
    tokens = sum(chunk for chunk, _ in parts) + len(decodes)
    tally = Tally(hidden, vocab, tokens, len(parts) + len(decodes))
    for _ in range(layers):
        tally.norms()
        tally.product("qkv", tokens, hidden, (32 + 8 + 8) * 128)
        tally.stream("rope", (32 + 8) * 128, 2)
        tally.product("attn_out", tokens, 32 * 128, hidden)
        if moe:
            tally.experts(*moe, width)
        else:
            tally.dense("mlp", width)
        # the chunk with most pairs and the decodes share a kernel call
        both = parts and decodes
        longest = max(parts, key=lambda part: part[0] * (part[1] + part[0] / 2), default=None)
        for chunk, prefix in parts:
            name = "mixed attention" if both and (chunk, prefix) == longest else "prefill attention"
            for token in range(1, chunk + 1):
                tally.flop[name] += 32 * 2 * (128 + 128) * (prefix + token)
                tally.bytes[name] += 2 * 2 * 32 * 128
            tally.bytes[name] += 2 * 2 * 8 * 128 * (prefix + chunk)
        for context in decodes:
            name = "mixed attention" if both else "decode attention"
            tally.flop[name] += 32 * 2 * (128 + 128) * context
            tally.bytes[name] += 2 * 2 * 32 * 128 + 2 * 2 * 8 * 128 * context
    return tally


def v2_lite(parts: Iterable[Part], decodes: list[int]) -> Tally:
    """DeepSeek-V2-Lite: 27 layers, 16 heads of 128 + 64 and 128, rank 512; the first layer is dense.

    What a module does besides products and attention has no work that must be; the A100's kernel expands all chunks.
    """
    parts = list(parts)
    tokens = sum(chunk for chunk, _ in parts) + len(decodes)
    tally = Tally(2048, 102400, tokens, len(parts) + len(decodes))
    for layer in range(27):
        tally.norms()
        tally.product("q", tokens, 2048, 16 * 192)
        tally.product("kv_a", tokens, 2048, 512 + 64)
        tally.product("kv_b", tokens, 512, 16 * (128 + 128))
        tally.product("attn_out", tokens, 16 * 128, 2048)
        if layer == 0:
            tally.dense("mlp", 10944)
        else:
            tally.experts(64, 6, 1408)
            tally.dense("shared", 2 * 1408)
        for chunk, prefix in parts:
            if prefix:
                tally.streamed("latent gather", (576 * (2 + 2) for _ in range(prefix)))
                tally.product("kv_b prefix", prefix, 512, 16 * (128 + 128))
            for token in range(1, chunk + 1):
                tally.flop["prefill attention"] += 16 * 2 * (192 + 128) * (prefix + token)
                tally.bytes["prefill attention"] += 2 * 16 * (192 + 128)  # Q in, O out
            tally.bytes["prefill attention"] += 2 * 16 * (192 + 128) * (prefix + chunk)  # K and V
        for context in decodes:
            tally.flop["decode attention"] += 16 * 2 * ((512 + 64) + 512) * context
            tally.bytes["decode attention"] += 2 * 576 * context + 2 * 16 * ((512 + 64) + 512)
    return tally


SHAPES: dict[str, tuple[list[Part], list[int]]] = {
    "prefill": ([(700, 0)], []),
    "long prefill": ([(2600, 0)], []),
    "chunk": ([(300, 900)], []),
    "long prefix": ([(20, 19_000)], []),
    "decode": ([], [100, 1000, 37, 512]),
    "mixed": ([(256, 0), (100, 1100)], [400, 7]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", [LLAMA, MIXTRAL, V2_LITE])
def test_work_of_a_step_is_the_sum_over_layers_and_tokens(model: str, shape: str) -> None:
    parts, decodes = SHAPES[shape]
    if model == LLAMA:
        expected = grouped(4096, 128256, 32, 14336, None, parts, decodes)
    elif model == MIXTRAL:
        expected = grouped(4096, 32000, 32, 14336, (8, 2), parts, decodes)
    else:
        expected = v2_lite(parts, decodes)
    step = analyse_step(
        kind_of(model), [Chunk(*part) for part in parts], batch=len(decodes), context=sum(decodes)
    )
    flop: dict[str, float] = defaultdict(float)
    moved: dict[str, float] = defaultdict(float)
    for operator in step.operators:
        flop[operator.name] += operator.flop
        moved[operator.name] += operator.bytes
    assert {name: f for name, f in flop.items() if f} == pytest.approx(dict(expected.flop), rel=1e-12)
    # a hair fewer experts than the loop's: a gamma law of nearly no variation stands for their loads
    if "experts" in expected.bytes:
        assert moved["experts"] == pytest.approx(expected.bytes.pop("experts"), rel=1e-6)
    modules = {"latent module": 0.0} if model == V2_LITE else {}
    given = {name: size for name, size in moved.items() if name != "experts"}
    assert given == pytest.approx(dict(expected.bytes) | modules, rel=1e-12)


def test_tensor_parallel_work_by_hand() -> None:
    # Llama-3.1-8B on 2 GPUs: 16 query and 4 KV heads, width 7168, half the vocabulary; whole norms.
    step = analyse_step(kind_of(LLAMA, tp=2), (Chunk(10, 20),), batch=1, context=50)
    flop = {operator.name: operator.flop for operator in step.operators}
    assert flop["qkv"] == 32 * 2 * 11 * 4096 * (16 + 4 + 4) * 128
    assert flop["attn_out"] == 32 * 2 * 11 * 16 * 128 * 4096
    assert flop["mlp_up"] == 32 * 2 * 11 * 4096 * 2 * 7168
    assert flop["mlp_down"] == 32 * 2 * 11 * 7168 * 4096
    assert flop["lm_head"] == 2 * 2 * 4096 * 64128
    assert flop["mixed attention"] == 32 * 4 * 16 * 128 * (sum(range(21, 31)) + 50)
    moved = {operator.name: operator.bytes for operator in step.operators}
    # 30 tokens of the prompt and 50 of the decode, Q and O of 11
    assert moved["mixed attention"] == 32 * ((30 + 50) * 2 * 4 * 128 * 2 + 11 * 2 * 16 * 128 * 2)
    assert moved["norm"] == 0  # in L2
    streams = {load.name: load.bytes_moved for load in token_loads(kind_of(LLAMA, tp=2), 11, 2)}
    assert streams["norm"] == 11 * 4096 * 4 * 2
    assert streams["rope"] == 11 * (16 + 4) * 128 * 2 * 2
    assert streams["mlp_act"] == 11 * 7168 * 3 * 2
    # 16 GPUs over 8 KV heads: each still holds one; 32 / 16 query heads
    sixteen = analyse_step(kind_of(LLAMA, tp=16), batch=1, context=50)
    (attention,) = (operator for operator in sixteen.operators if operator.name == "decode attention")
    assert attention.bytes == 32 * (50 * 2 * 1 * 128 * 2 + 2 * 2 * 128 * 2)


def test_tensor_parallelism_adds_two_all_reduces_a_layer() -> None:
    alone = analyse_step(kind_of(V2_LITE), (Chunk(512),))
    assert not any("all_reduce" in operator.kind for operator in alone.operators)
    shared = analyse_step(kind_of(V2_LITE, tp=2), (Chunk(512),))
    reduces = [operator for operator in shared.operators if operator.kind == "custom_all_reduce"]
    assert sum(operator.count for operator in reduces) == 2 * 27
    assert sum(operator.bytes for operator in reduces) == 2 * 27 * 512 * 2048 * 2
    assert {operator.limit for operator in reduces} == {"link"}
    # bytes of a step are those through HBM
    hbm = sum(operator.bytes for operator in shared.operators if operator not in reduces)
    assert shared.bytes == pytest.approx(hbm, rel=1e-12)
    # a ring of two sends 2 (2 - 1) / 2 of each message over 300 GB/s
    assert sum(operator.bound_s for operator in reduces) == pytest.approx(
        2 * 27 * 512 * 2048 * 2 / 300e9, rel=1e-12
    )


def test_latents_are_expanded_again_only_over_a_prefix() -> None:
    whole = analyse_step(kind_of(V2_LITE), (Chunk(512),), batch=2, context=100)
    assert not {"latent gather", "kv_b prefix"} & {operator.name for operator in whole.operators}
    chunk = analyse_step(kind_of(V2_LITE, kv_dtype="fp8"), (Chunk(512, 300),))
    found = {operator.name: operator for operator in chunk.operators}
    assert found["kv_b prefix"].flop == 27 * 2 * 300 * 512 * 16 * 256
    # read at one byte, written at two, all in L2; attention then reads expanded keys and values at two
    assert (found["latent gather"].kind, found["latent gather"].bytes) == ("embedding", 0)
    long = analyse_step(kind_of(V2_LITE, kv_dtype="fp8"), (Chunk(512, 30_000),))
    (gather,) = (operator for operator in long.operators if operator.name == "latent gather")
    assert gather.bytes == 27 * (30_000 * 576 * (1 + 2) - L2)
    assert found["prefill attention"].bytes == 27 * 16 * 320 * 2 * (512 + 812)
    grouped_chunk = analyse_step(kind_of(LLAMA), (Chunk(5, 9),))
    assert not any(operator.name == "kv_b prefix" for operator in grouped_chunk.operators)


def test_cached_keys_and_values_have_their_own_dtype() -> None:
    def moved(chunks: tuple[Chunk, ...], batch: int, context: int) -> float:
        step = analyse_step(kind_of(LLAMA, "h100-sxm", kv_dtype="fp8"), chunks, batch=batch, context=context)
        return sum(operator.bytes for operator in step.operators if operator.kind.startswith("attention"))

    chunk, decodes = moved((Chunk(10, 20),), 0, 0), moved((), 2, 50)
    assert chunk == 32 * (10 * 2 * 32 * 128 * 2 + 30 * 2 * 8 * 128)
    assert decodes == 32 * (2 * 2 * 32 * 128 * 2 + 50 * 2 * 8 * 128)
    assert moved((Chunk(10, 20),), 2, 50) == chunk + decodes
    latents = analyse_step(kind_of(V2_LITE, kv_dtype="fp8"), batch=2, context=50)
    (attention,) = (operator for operator in latents.operators if operator.name == "decode attention")
    assert attention.bytes == 27 * (50 * 576 + 2 * 16 * 1088 * 2)


def test_windows_cap_what_attention_reads() -> None:
    # Mistral-7B-v0.1, window 4096, 32 layers of 32 query and 8 KV heads of 128
    kind = kind_of("mistralai/Mistral-7B-v0.1")
    (chunk, decodes, mixed) = (
        next(operator for operator in step.operators if operator.kind.startswith("attention"))
        for step in (
            analyse_step(kind, (Chunk(300, 9_000),)),
            analyse_step(kind, batch=2, context=20_000),
            analyse_step(kind, (Chunk(300, 9_000),), batch=2, context=20_000),
        )
    )
    assert chunk.flop == 32 * 4 * 32 * 128 * 300 * 4096
    # the first token sees itself and 4,095 cached ones
    assert chunk.bytes == 32 * (300 * 2 * 4096 * 2 + (300 + 4095) * 2 * 1024 * 2)
    assert decodes.flop == 32 * 4 * 32 * 128 * 2 * 4096
    assert decodes.bytes == 32 * (2 * 4096 * 2 * 1024 * 2 + 2 * 2 * 4096 * 2)
    assert (mixed.flop, mixed.bytes) == (chunk.flop + decodes.flop, chunk.bytes + decodes.bytes)


def test_head_runs_for_decodes_and_ending_chunks_alone() -> None:
    kind = kind_of(LLAMA)
    rows = {
        last: [
            op.flop
            for op in analyse_step(kind, (Chunk(8), Chunk(8, 8)), last=last).operators
            if op.name == "lm_head"
        ]
        for last in (0, 1, 2)
    }
    assert rows == {0: [], 1: [2 * 4096 * 128256], 2: [2 * 2 * 4096 * 128256]}


def test_eight_bit_weights() -> None:
    kind = kind_of(V2_LITE, "h100-sxm", dtype="fp8")
    found = {operator.name: operator for operator in analyse_step(kind, (Chunk(100),)).operators}
    assert {found[name].kind for name in ("q", "kv_a", "kv_b", "attn_out", "mlp_up", "shared_down")} == {
        "gemm_fp8"
    }
    assert (found["experts"].kind, found["router"].kind, found["lm_head"].kind) == ("moe_fp8", "gemm", "gemm")
    # one byte a weight, two an activation; router and head two bytes a weight
    assert found["mlp_down"].bytes == 10944 * 2048 + 100 * (10944 + 2048) * 2
    assert found["router"].bytes == 26 * (2048 * 64 * 2 + 100 * (2048 + 64) * 2)
    assert found["lm_head"].bytes == 2048 * 102400 * 2 + (2048 + 102400) * 2
    # each at its own peak: 1,979 and 989 TFLOP/s (arithmetic leads over 4,000 tokens)
    long = {operator.name: operator for operator in analyse_step(kind, (Chunk(4000),)).operators}
    assert long["mlp_up"].bound_s == pytest.approx(2 * 4000 * 2048 * 2 * 10944 / 1979e12, rel=1e-12)
    assert long["prefill attention"].bound_s == pytest.approx(
        27 * 2 * 16 * 320 * 4000 * 4001 / 2 / 989e12, rel=1e-12
    )
    (head,) = (op for op in analyse_step(kind, batch=1000, context=1000).operators if op.name == "lm_head")
    assert head.bound_s == pytest.approx(2 * 1000 * 2048 * 102400 / 989e12, rel=1e-12)
    # int8 has the same peak and is taken to run like fp8
    int8 = analyse_step(kind_of(V2_LITE, "h100-sxm", dtype="int8"), (Chunk(4000),))
    assert int8.time_s == analyse_step(kind, (Chunk(4000),)).time_s


def test_expected_experts_against_drawn_ones() -> None:
    # V2-Lite, 20 tokens of 6 of 64 experts: weights read less activations, in experts of 3 x 2048 x 1408.
    (load, *_) = (load for load in token_loads(kind_of(V2_LITE), 20, 0) if load.name == "experts")
    activations = 20 * 6 * (3 * 2048 + 3 * 1408) * 2 + 20 * 2048 * 2
    expected = (load.bytes_moved - activations) / (3 * 2048 * 1408 * 2)
    draw, trials = random.Random(7), 4000
    counts = [len({expert for _ in range(20) for expert in draw.sample(range(64), 6)}) for _ in range(trials)]
    mean = sum(counts) / trials
    error = (sum((count - mean) ** 2 for count in counts) / trials / trials) ** 0.5
    assert abs(expected - mean) < 4 * error
