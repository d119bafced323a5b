"""The KV copy against published transfers: sizes exact, times within 10 %, bounds by hand."""

from __future__ import annotations

import pytest

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.link import load_connector, load_link
from costmodel.memory.parallelism import Parallelism
from costmodel.questions.break_even import ask_break_even
from costmodel.questions.transfer import TransferAnswer, ask_transfer
from costmodel.serving.handover import Handover, KvEnd
from costmodel.serving.instance import make_instance

# Mooncake, docs/source/performance/vllm/vllm-v1-pd-performance.md (3b5a594): Qwen3-8B, TP8 to TP8,
# 8 x 200 Gb/s RoCE: prompt tokens and milliseconds of the transfer.
QWEN3_8B = {
    128: 0.54,
    256: 0.61,
    512: 0.92,
    1024: 1.50,
    2048: 2.51,
    4096: 4.75,
    8192: 8.84,
    16384: 16.43,
    32768: 31.65,
}
# The same, docs/source/performance/sglang/sglang-benchmark-results-v1.md: Qwen3-235B-A22B, TP8, 4 x 400 Gb/s.
QWEN3_235B = {128: 2.07, 1024: 3.96, 8192: 20.31, 32768: 76.78}


@pytest.mark.parametrize(("tokens", "milliseconds"), QWEN3_8B.items())
def test_qwen3_8b_sizes_are_exact_and_times_close(tokens: int, milliseconds: float) -> None:
    copy = ask_transfer("Qwen3-8B", tokens, "eth-200", nics=8, prefill_tp=8, decode_tp=8)
    # 36 layers x K and V x 8 heads x 128 x 2 bytes = 147,456 B a token
    assert copy.payload_bytes == (tokens // 16 + 1) * 16 * 147_456
    assert copy.wire_bytes == copy.payload_bytes  # 8 KV heads over 8 GPUs: none is repeated
    assert copy.wire_s == pytest.approx(milliseconds / 1e3, rel=0.10)
    assert copy.bound_s < copy.wire_s and copy.exposed_s == copy.wire_s


def test_mean_errors_of_the_copy_are_those_of_the_connector() -> None:
    # fitted to every second size from the smallest; the others were held out
    error = {}
    for tokens, milliseconds in QWEN3_8B.items():
        copy = ask_transfer("Qwen3-8B", tokens, "eth-200", nics=8, prefill_tp=8, decode_tp=8)
        error[tokens] = abs(copy.wire_s * 1e3 / milliseconds - 1)
    sizes = sorted(error)
    fitted, held_out = (sum(error[size] for size in part) / len(part) for part in (sizes[::2], sizes[1::2]))
    connector = load_connector("mooncake-vllm")
    assert connector.fitted_mape == pytest.approx(fitted, abs=0.001)
    assert connector.held_out_mape == pytest.approx(held_out, abs=0.001)
    assert sum(error.values()) / len(error) < 0.04
    # 0.399 ms, and 64 + 1 blocks of 16 x 147,456 bytes at 0.741 of 200 GB/s
    copy = ask_transfer("Qwen3-8B", 1024, "eth-200", nics=8, prefill_tp=8, decode_tp=8)
    assert copy.wire_s == pytest.approx(0.399e-3 + 65 * 16 * 147_456 / (0.741 * 200e9), rel=1e-12)


@pytest.mark.parametrize(("tokens", "milliseconds"), QWEN3_235B.items())
def test_four_heads_over_eight_gpus_double_the_wire_bytes(tokens: int, milliseconds: float) -> None:
    copy = ask_transfer(
        "Qwen3-235B-A22B", tokens, "eth-400", nics=4, prefill_tp=8, decode_tp=8, connector="mooncake-sglang"
    )
    # 94 layers x 2 x 4 heads x 128 x 2 bytes = 192,512 B a token; the page prints twice that
    assert copy.payload_bytes == tokens * 192_512
    assert copy.wire_bytes == 2 * tokens * 192_512
    assert copy.wire_s == pytest.approx(milliseconds / 1e3, rel=0.075)


def test_published_size_of_the_largest_copy() -> None:
    copy = ask_transfer(
        "Qwen3-235B-A22B", 32_768, "eth-400", prefill_tp=8, decode_tp=8, connector="mooncake-sglang"
    )
    assert f"{copy.wire_bytes / 1e9:.2f} GB" == "12.62 GB"


@pytest.mark.parametrize(
    ("link", "microseconds"), [("nvlink3", 53.1), ("pcie4-x16", 505.6), ("nvlink4", 35.4)]
)
def test_bounds_of_512_tokens_of_v2_lite(link: str, microseconds: float) -> None:
    # 512 x 31,104 B = 15,925,248 B over 300, 31.5 and 450 GB/s
    assert ask_transfer("DeepSeek-V2-Lite", 512, link).bound_s * 1e6 == pytest.approx(microseconds, abs=0.05)


def test_a_latent_is_pulled_by_every_receiving_rank() -> None:
    alone = ask_transfer("DeepSeek-V2-Lite", 512, "ib-hdr")
    spread = ask_transfer("DeepSeek-V2-Lite", 512, "ib-hdr", prefill_tp=4, decode_tp=8)
    assert alone.replication == 1 and spread.replication == 8
    assert spread.payload_bytes == alone.payload_bytes and spread.wire_bytes == 8 * alone.wire_bytes
    # 33 blocks (floor(512 / 16) + 1) x 27 layers x one latent x 8 ranks
    assert spread.descriptors == 33 * 27 * 8


def test_layerwise_hides_all_but_the_last_layer_behind_a_long_prefill() -> None:
    copy = ask_transfer("Qwen3-8B", 4096, "eth-200", overlap="layerwise", prefill_s=10.0)
    assert copy.exposed_s == pytest.approx(copy.wire_s / 36)
    short = ask_transfer("Qwen3-8B", 4096, "eth-200", overlap="layerwise", prefill_s=1e-9)
    assert short.exposed_s == pytest.approx(short.wire_s)


def test_control_is_said_or_missing_with_a_reason() -> None:
    unknown = ask_transfer("Qwen3-8B", 4096, "eth-200")
    assert unknown.control_s is None and unknown.handover_s is None and unknown.control_reason
    given = ask_transfer("Qwen3-8B", 4096, "eth-200", control_s=0.1)
    assert given.handover_s == pytest.approx(0.1 + given.exposed_s) and given.control_reason is None


def test_ends_need_no_gpu_and_instances_serve_as_ends() -> None:
    model, gpu = read_model("Qwen3-8B"), load_gpu("h100-sxm")
    link, connector = load_link("eth-200"), load_connector("mooncake-vllm")
    bare = Handover(KvEnd(model, 8, "bf16"), KvEnd(model, 8, "bf16"), link, connector, nics=8)
    kind = make_instance(model, gpu, Parallelism(tp=8))
    assert Handover(kind, kind, link, connector, nics=8).wire_s(777) == bare.wire_s(777)
    with pytest.raises(InputError, match="one --kv-dtype"):
        Handover(KvEnd(model, 8, "bf16"), KvEnd(model, 8, "fp8"), link, connector)


def test_the_answer_says_which_bandwidth_and_who_measured_it() -> None:
    about = ask_transfer("Qwen3-8B", 4096, "eth-200", nics=8).about
    assert "8 x 25 GB/s (peak of one port) x 0.741" in about.assumptions[0]
    assert any("vllm-v1-pd-performance.md" in source for source in about.sources)
    assert any("intensity is 0" in text for text in about.assumptions)


# Windows, states and shared caches. mooncake-vllm: blocks of 16 tokens, floor(tokens / 16) + 1 of them.


def copy_of(
    model: str, tokens: int, prefill_tp: int = 1, decode_tp: int = 1, kv_dtype: str | None = None
) -> TransferAnswer:
    return ask_transfer(
        model, tokens, "ib-ndr", prefill_tp=prefill_tp, decode_tp=decode_tp, kv_dtype=kv_dtype
    )


def test_a_state_is_sent_once_whatever_the_tokens() -> None:
    # Qwen3-Next: 12 attention layers x 2 x 2 heads x 256 x 2 bytes = 24,576 B a token; 36 states of
    # 32 x 128 x 128 and 3 x 8,192 elements of two bytes
    state = 36 * 2 * (32 * 128 * 128 + 3 * 8192)
    for tokens, blocks in ((100, 7), (5000, 313)):
        copy = copy_of("Qwen/Qwen3-Next-80B-A3B-Instruct", tokens)
        assert copy.payload_bytes == copy.wire_bytes == blocks * 16 * 24_576 + state
        # K and V of every block; of each state its matrices and its convolution's inputs
        assert copy.descriptors == blocks * 12 * 2 + 36 * 2


def test_ranks_repeat_kv_heads_but_share_states() -> None:
    # 8 ranks over 2 KV heads: each head four times; 32 heads of states: an eighth a rank
    copy = copy_of("Qwen/Qwen3-Next-80B-A3B-Instruct", 5000, 4, 8)
    state = 36 * 2 * (32 * 128 * 128 + 3 * 8192)
    assert copy.wire_bytes == 4 * 313 * 16 * 24_576 + state
    assert copy.replication == pytest.approx(copy.wire_bytes / copy.payload_bytes, rel=1e-12)
    assert copy.descriptors == 8 * (313 * 12 * 2 + 36 * 2)


def test_a_state_without_a_convolution_is_one_region() -> None:
    # MiniMax-Text-01: 10 attention layers x 2 x 8 x 128 x 2 bytes; 70 states of 64 x 128 x 128
    copy = copy_of("MiniMaxAI/MiniMax-Text-01", 100, kv_dtype="bf16")
    assert copy.payload_bytes == 7 * 16 * 10 * 4096 + 70 * 64 * 128 * 128 * 2
    assert copy.descriptors == 7 * 10 * 2 + 70


def test_a_windowed_layer_sends_its_window() -> None:
    # gpt-oss-20b: 12 full and 12 windowed layers (128 tokens) of 2 x 8 x 64 x 2 = 2,048 B a token
    short, long = (copy_of("openai/gpt-oss-20b", tokens, kv_dtype="bf16") for tokens in (100, 5000))
    assert short.payload_bytes == 24 * 7 * 16 * 2048
    assert short.descriptors == 24 * 7 * 2
    assert long.payload_bytes == 12 * 2048 * (313 * 16 + 128)
    assert long.descriptors == 12 * 2 * (313 + 128 // 16)
    assert long.bound_s == pytest.approx(12 * 2048 * (5000 + 128) / 50e9, rel=1e-12)


def test_layers_that_share_a_cache_send_it_once() -> None:
    # gemma-4-E2B: 3 full layers of 2 x 512 x 2 bytes and 12 windowed (512) of 2 x 256 x 2; 20 more read these
    copy = copy_of("google/gemma-4-E2B-it", 5000)
    assert copy.payload_bytes == 3 * 2048 * 313 * 16 + 12 * 1024 * 512
    assert copy.descriptors == 2 * (3 * 313 + 12 * 512 // 16)


def test_an_indexer_key_is_a_region_of_its_own() -> None:
    # DeepSeek-V3.2: 61 layers of 576 x 2 + 132 bytes, whole on each of 8 ranks
    copy = copy_of("deepseek-ai/DeepSeek-V3.2", 100, 8, 8)
    assert copy.payload_bytes == 7 * 16 * 61 * 1284
    assert (copy.wire_bytes, copy.replication) == (8 * copy.payload_bytes, 8)
    assert copy.descriptors == 7 * 61 * 2 * 8


def test_break_even_takes_the_bytes_of_a_token_on_the_wire() -> None:
    # Kimi-Linear: 7 latents of 576 x 2 bytes, whole on each of 4 ranks; its states do not grow with the prompt.
    # Qwen3-Next: 12 layers x 2 x 2 heads x 256 x 2 bytes, each head on two of 4 ranks
    known = {"prefill_per_token": 4e-5, "decode_step": 0.01, "batch": 8.0, "control": 0.1, "chunk": 2048.0}
    for model, growing in (
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 4 * 7 * 576 * 2),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2 * 24_576),
    ):
        path = {"link": "ib-ndr", "connector": "mooncake-vllm", "tp": 4}
        found = ask_break_even(model, known, path=path)
        (value,) = (each.value for each in found.parameters if each.name == "kv_bytes_per_token")
        assert value == growing
