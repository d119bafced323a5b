"""Steps whose experts are shared out over GPUs: hand counts, drawn routings, and what stays as under TP."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from cli_runner import asked, run

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.memory.parallelism import Parallelism
from costmodel.questions.step import ask_step
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.memory import kv_pool
from costmodel.serving.step import Operator, StepTimes, analyse_step
from costmodel.serving.work import Chunk, Load, token_loads

MIXTRAL, QWEN, V3 = "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen1.5-MoE-A2.7B", "deepseek-ai/DeepSeek-V3"
V2_LITE = "deepseek-ai/DeepSeek-V2-Lite"
#: Matrices of one of Mixtral's 8 experts: up, gate and down of 4096 x 14336; a token uses 2, 32 layers have them.
EXPERT = 3 * 4096 * 14336


def kind_of(model: str, tp: int, ep: int, gpu: str = "h100-sxm") -> InstanceKind:
    return make_instance(read_model(model), load_gpu(gpu), Parallelism(tp, ep=ep))


def experts_load(kind: InstanceKind, tokens: float) -> Load:
    (load, *_) = (load for load in token_loads(kind, tokens, 0) if load.name == "experts")
    return load


def operators(kind: InstanceKind, tokens: int) -> dict[str, Operator]:
    return {operator.name: operator for operator in analyse_step(kind, (Chunk(tokens),)).operators}


def activations(tokens: int, top_k: int, hidden: int, width: int) -> int:
    """Bytes of two-byte activations: rows of all tokens, row by row."""
    rows = sum(hidden + 2 * width + width + hidden + hidden for _ in range(tokens * top_k))
    return 2 * (rows + tokens * hidden)


def test_one_whole_expert_a_gpu_by_hand() -> None:
    # 4,096 tokens of 2 of 8 experts are 8,192 rows, 1,024 for each GPU's expert, which some token surely chooses
    kind = kind_of(MIXTRAL, 8, 8)
    found = operators(kind, 4096)["experts"]
    moved = activations(4096, 2, 4096, 14336)
    assert found.flop == 32 * 2 * 1024 * EXPERT
    assert found.bytes == pytest.approx(32 * (2 * EXPERT + moved), rel=1e-12)
    # 1,024 rows leave half a tile empty on average; arithmetic and weights are sides of a triangle
    fit = kind.efficiency.operators["moe"].parameters
    padded = 1024 + (fit["tile_rows"] - 1) / 2
    bandwidth = fit["bandwidth_share"] * 3350e9
    arithmetic = 2 * padded * EXPERT / (fit["compute_share"] * 989e12)
    each = math.hypot(arithmetic, 2 * EXPERT / bandwidth) + moved / bandwidth + fit["latency"]
    assert found.time_s == pytest.approx(32 * each, rel=1e-9)


def test_experts_in_halves_by_hand() -> None:
    # TP8 EP4: two experts a GPU, of which it has half the width, 7,168; both are used
    found = operators(kind_of(MIXTRAL, 8, 4), 4096)["experts"]
    assert found.flop == 32 * 2 * 2048 * EXPERT / 2
    assert found.bytes == pytest.approx(
        32 * (2 * 2 * EXPERT / 2 + activations(4096, 2, 4096, 7168)), rel=1e-12
    )


def test_one_token_reads_one_expert_on_the_busiest_gpu() -> None:
    # it goes to two of eight GPUs: a row, an expert. Split by TP8, each GPU has an eighth of both experts
    whole, split = (experts_load(kind_of(MIXTRAL, 8, ep), 1) for ep in (8, 1))
    assert (whole.flop, split.flop) == (2 * EXPERT, 2 * 2 * EXPERT / 8)
    assert whole.bytes_moved == pytest.approx(2 * EXPERT + activations(1, 2, 4096, 14336), rel=1e-12)
    assert split.bytes_moved == pytest.approx(2 * 2 * EXPERT / 8 + activations(1, 2, 4096, 1792), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "tp", "ep", "experts", "top_k"),
    [(MIXTRAL, 8, 4, 8, 2), (V3, 8, 8, 256, 8), (QWEN, 8, 8, 60, 4)],
)
def test_rows_of_a_gpu_are_those_of_evenly_chosen_experts(
    model: str, tp: int, ep: int, experts: int, top_k: int
) -> None:
    # token after token takes the next top_k experts; those of the first GPU count. Of 60, the first have 8
    tokens, first = 15 * experts, range(math.ceil(experts / ep))
    rows = sum((token * top_k + j) % experts in first for token, j in product(range(tokens), range(top_k)))
    load = experts_load(kind_of(model, tp, ep, "h200-sxm"), tokens)
    shape = load.work.shape
    assert load.flop == pytest.approx(2 * rows * shape["hidden"] * shape["width"] * 3, rel=1e-12)
    assert (shape["tokens"], shape["top_k"], shape["experts"]) == (tokens, top_k, len(first))


def test_expected_experts_of_a_gpu_against_drawn_ones() -> None:
    # V2-Lite, 20 tokens of 6 of 64 experts, 8 of them on this GPU, whole: 1408 wide
    load = experts_load(kind_of(V2_LITE, 8, 8), 20)
    expected = (load.bytes_moved - activations(20, 6, 2048, 1408)) / (3 * 2048 * 1408 * 2)
    draw, trials = random.Random(11), 4000
    counts = [
        len({expert for _ in range(20) for expert in draw.sample(range(64), 6) if expert < 8})
        for _ in range(trials)
    ]
    mean = sum(counts) / trials
    error = (sum((count - mean) ** 2 for count in counts) / trials / trials) ** 0.5
    assert abs(expected - mean) < 4 * error


@pytest.mark.parametrize("model", [MIXTRAL, V3, QWEN])
def test_all_but_routed_experts_is_as_under_tensor_parallelism(model: str) -> None:
    def rest(ep: int) -> list[Operator]:
        step = analyse_step(kind_of(model, 8, ep, "h200-sxm"), (Chunk(300, 40),), batch=5, context=999)
        return [operator for operator in step.operators if operator.name != "experts"]

    assert rest(1) == rest(2) == rest(8)


def test_experts_split_by_width_alone_have_the_shape_of_all() -> None:
    shape = experts_load(kind_of(MIXTRAL, 8, 1), 77).work.shape
    found = [shape[key] for key in ("tokens", "top_k", "experts", "ranks", "width")]
    assert found == [77, 2, 8, 1, 14336 / 8]


def test_a_step_counts_the_bytes_of_its_gpu() -> None:
    kind = kind_of(MIXTRAL, 8, 8)
    step = analyse_step(kind, batch=3, context=3000)
    times = StepTimes(kind)
    (attention,) = (operator for operator in step.operators if operator.name == "decode attention")
    assert times.token_bytes(3, 3) + attention.bytes == pytest.approx(step.bytes, rel=1e-12)
    assert step.mbu == pytest.approx(step.bytes / 3350e9 / step.time_s, rel=1e-12)
    # KV stays split over all eight: 32 layers, one of 8 KV heads of 128, two bytes
    assert times.cached_bytes(3, 3000) == 3000 * 32 * 2 * 128 * 2


def test_the_fullest_gpu_holds_what_it_is_given() -> None:
    """60 experts on 8 GPUs: 8 whole ones against 60 parts of 176. Each is 2048 x 1408 x 3 x 2 bytes, 16.5 MiB."""
    split, whole = (kv_pool(kind_of(QWEN, 8, ep)) for ep in (1, 8))
    # A layer: 88 + 44 MiB against 82.5 + 41.25; the last is rounded up to 42 (torch's segments of 2 MiB).
    more = 24 * (88 + 44 - 82.5 - 42) * 2**20
    assert whole.weights_bytes - split.weights_bytes == more
    assert whole.pool_bytes < split.pool_bytes
    assert whole.held_bytes(5000) == split.held_bytes(5000)


def test_layouts_without_step_times_are_refused_by_name() -> None:
    for layout, name in [
        (Parallelism(8, pp=2), "TP8 PP2"),
        (Parallelism(8, ep=8, dp_attention=8), "TP8 EP8 DP8"),
    ]:
        with pytest.raises(InputError, match=rf"{name}: .* pass --tp and --ep alone"):
            make_instance(read_model(V3), load_gpu("h200-sxm"), layout)
    with pytest.raises(InputError, match="has no experts to share out"):
        kind_of("meta-llama/Llama-3.1-8B", 8, 8)
    # blocks of 128 that share a scale: 192 columns a GPU cut one, whole experts do not
    with pytest.raises(InputError, match="share out whole experts with --ep"):
        kind_of("Qwen3-235B-A22B-FP8", 8, 1)
    assert kind_of("Qwen3-235B-A22B-FP8", 8, 8).label() == "h100-sxm TP8 EP8"


STEP = ("step", MIXTRAL, "--hardware", "h100-sxm", "--phase", "decode", "--batch", "9", "--context", "999")


def test_the_command_takes_ep_and_says_what_it_assumes() -> None:
    answer = asked(*STEP, "--tp", "8", "--ep", "8")
    assert (answer["tp"], answer["ep"]) == (8, 8)
    step = analyse_step(kind_of(MIXTRAL, 8, 8), batch=9, context=9 * 999)
    assert answer["time_s"] == pytest.approx(step.time_s, rel=1e-12)
    assert "TP8 EP8" in run(*STEP, "--tp", "8", "--ep", "8").output
    said = " ".join(answer["assumptions"])
    assert "equally loaded" in said and "all tokens of the step" in said
    alone = ask_step(MIXTRAL, "h100-sxm", "decode", batch=9, context=999, tp=8)
    assert alone.ep == 1 and "equally loaded" not in " ".join(alone.about.assumptions)


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--tp", "8", "--ep", "3"), "--ep 3 does not divide --tp 8"), (("--ep", "0"), "--ep: '0' is not")],
)
def test_a_wrong_ep_is_one_message(options: tuple[str, ...], message: str) -> None:
    result = run(*STEP, *options)
    assert result.exit_code == 2 and message in result.output
