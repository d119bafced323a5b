"""Tiers of KV as data and as options: every value sourced, nothing filled in, bytes by hand."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.tier import PER, SCHEMA, load_tier, tier_names
from costmodel.memory.parallelism import Parallelism
from costmodel.questions.inputs import as_model
from costmodel.questions.show import ask_show
from costmodel.questions.tiers import kv_tiers, parse_tier, parse_tiers
from costmodel.serving.deployment import Settings
from costmodel.serving.handover import KvEnd
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.scenario import Scenario
from costmodel.serving.tiers import kv_shape

FILES = sorted((Path(__file__).resolve().parents[1] / "hardware" / "tiers").glob("*.toml"))


def end(name: str, tp: int = 1) -> KvEnd:
    return KvEnd(as_model(name), tp, "bf16")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_value_has_a_source_and_what_is_absent_a_reason(path: Path) -> None:
    data = tomllib.loads(path.read_text())
    cited = {entry["source"] for entry in (*data["values"].values(), *data.get("pieces", []))}
    assert data["name"] == path.stem
    assert cited == set(data["sources"])
    assert set(data["values"]) | set(data["absent"]) == set(SCHEMA)
    assert all(text.strip() for text in (*data["sources"].values(), *data["absent"].values()))
    tier = load_tier(path.stem)
    assert tier.per in PER
    assert tier.shared == tier.on_link == (tier.kind == "remote")
    assert tier.used("read") is not None  # a tier whose reads nobody stated is of no use


def test_figures_that_were_published() -> None:
    vllm = load_tier("dram-pcie5-vllm-0.12")
    assert (vllm.value("sustained_read"), vllm.value("both_ways")) == (50e9, 83.4e9)
    assert load_tier("dram-pcie5-vllm-0.11").value("sustained_read") == 11e9  # 88 Gb/s
    lmcache = load_tier("dram-pcie5-lmcache")
    assert [(piece.size_bytes, piece.bytes_per_s) for piece in lmcache.pieces] == [
        (65536, 4e9),
        (262144, 13e9),
        (16 * 2**20, 49e9),
    ]
    assert load_tier("nvme-gen4").pieces[0].bytes_per_s == 4.35 * 2**30
    assert set(tier_names()) >= {"dram-pcie4", "dram-pcie5", "nvme-gen4", "store-eth-100", "store-ib-ndr"}


def test_between_measured_sizes_the_time_of_a_copy_is_a_line() -> None:
    tier = load_tier("dram-pcie5-lmcache")
    assert tier.bandwidth_of_pieces(65535) is None
    assert tier.bandwidth_of_pieces(65536) == pytest.approx(4e9)
    assert tier.bandwidth_of_pieces(2**30) == 49e9
    # half way from 64 to 256 KiB: (65,536 / 4 + 262,144 / 13) / 2 ns = 18.2745 us for 160 KiB
    assert tier.bandwidth_of_pieces(163840) == pytest.approx(163840 / 18.27446e-6, rel=1e-5)


def test_a_file_says_all_that_is_wrong_with_it(tmp_path: Path) -> None:
    text = (Path(FILES[0]).parent / "dram-pcie5-lmcache.toml").read_text()
    bad = tmp_path / "bad.toml"
    bad.write_text(
        text.replace('"50 GB/s"', '"70 GB/s"')
        .replace("shared   = false", "shared   = 1")
        .replace("49 GB/s", "64 GB/s")
        .replace('latency         = "not stated"', "")
        .replace('"256"', '"25.6"')
    )
    with pytest.raises(InputError) as caught:
        load_tier(bad)
    told = str(caught.value)
    for part in ("sustained cannot exceed peak", "shared: 1 is not true or false", "pieces[3].bandwidth"):
        assert part in told
    for part in ("missing key 'values.latency'", "is not a whole number"):
        assert part in told


def test_a_size_of_copies_is_stated_once(tmp_path: Path) -> None:
    text = (Path(FILES[0]).parent / "dram-pcie5-lmcache.toml").read_text()
    (tmp_path / "bad.toml").write_text(text.replace('"256 KiB"', '"64 KiB"', 1))
    with pytest.raises(InputError, match=r"pieces\[2\].size: another of pieces has that size"):
        load_tier(tmp_path / "bad.toml")


def test_both_ways_cannot_exceed_both_peaks(tmp_path: Path) -> None:
    text = (Path(FILES[0]).parent / "dram-pcie5-vllm-0.12.toml").read_text()
    (tmp_path / "bad.toml").write_text(text.replace("83.4 GB/s", "127 GB/s", 1))
    with pytest.raises(InputError, match="both directions together"):
        load_tier(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_text(text.replace("83.4 GB/s", "49 GB/s", 1))
    with pytest.raises(InputError, match="less than one direction alone, sustained_read '50 GB/s'"):
        load_tier(tmp_path / "bad.toml")


def test_a_tier_holds_what_a_model_keeps_a_token() -> None:
    # Llama-3.1-8B: 32 layers x 2 x 8 heads x 128 x 2 B = 131,072 B a token
    (tier,) = kv_tiers(["dram-pcie5-vllm-0.12,capacity=500GB"], end("Llama-3.1-8B", 2))
    assert (tier.bytes_per_token, tier.fixed_bytes, tier.chunk_tokens) == (131072, 0, 16)
    assert tier.read_bytes_per_s == tier.write_bytes_per_s == 100e9  # two GPUs, a wire each
    assert tier.capacity_tokens == 500e9 / 131072
    # gpt-oss-120b: 18 full layers of 2,048 B, 18 of a window of 128 tokens
    (tier,) = kv_tiers(["store-eth-100,capacity=1TB,count=4,latency=2ms"], end("gpt-oss-120b"))
    assert (tier.bytes_per_token, tier.fixed_bytes) == (36864, 18 * 128 * 2048)
    assert (tier.read_bytes_per_s, tier.latency_s, tier.shared, tier.on_link) == (50e9, 0.002, True, True)


def test_latents_are_stored_by_every_rank_unless_deduplicated() -> None:
    # DeepSeek-V3: 61 layers x 576 x 2 B = 70,272 B a token, whole on each of 8 ranks
    deepseek = end("deepseek-ai/DeepSeek-V3", 8)
    assert (kv_shape(deepseek).bytes_per_token, kv_shape(deepseek).copies) == (70272, 8)
    (each,) = kv_tiers(["dram-pcie5,capacity=1TB"], deepseek)
    (once,) = kv_tiers(["dram-pcie5,capacity=1TB,per_rank=no"], deepseek)
    assert (each.bytes_per_token, once.bytes_per_token) == (8 * 70272, 70272)
    assert once.capacity_tokens == pytest.approx(8 * each.capacity_tokens)
    # every rank still reads the whole latent over its own wire: as long either way
    assert each.read_s(10_000) == pytest.approx(once.read_s(10_000))
    assert each.read_s(10_000) == pytest.approx(10_000 * 70272 / 55.43e9)
    assert once.write_bytes_per_s == pytest.approx(55.06e9)


def test_ranks_beyond_the_kv_heads_repeat_them() -> None:
    # Qwen3-30B-A3B: 4 KV heads over 8 ranks, each head twice
    assert kv_shape(end("Qwen/Qwen3-30B-A3B", 8)).copies == 2
    assert kv_shape(end("Qwen/Qwen3-30B-A3B", 4)).copies == 1


def test_states_are_spread_over_ranks_where_heads_are_repeated() -> None:
    # Qwen3-Next: 12 full layers of 2 KV heads, over 4 ranks each twice; 36 layers of states, spread: each byte once
    one, four = (kv_shape(end("Qwen/Qwen3-Next-80B-A3B-Instruct", tp)) for tp in (1, 4))
    assert four.copies == 2 and four.held_bytes_per_token == 2 * one.bytes_per_token
    assert four.fixed_bytes == one.fixed_bytes == one.held_fixed_bytes > 0
    assert four.held_fixed_bytes == one.fixed_bytes
    # gpt-oss: 8 KV heads over 16 ranks are repeated in windows, too
    wide = kv_shape(end("gpt-oss-120b", 16))
    assert wide.copies == 2 and wide.held_fixed_bytes == 2 * wide.fixed_bytes


def test_a_tier_may_keep_another_layout() -> None:
    (tier,) = kv_tiers(["dram-pcie5,capacity=4.93GB,bytes_per_token=134kB"], end("gpt-oss-120b", 2))
    assert (tier.bytes_per_token, tier.fixed_bytes) == (134e3, 0)
    assert tier.capacity_tokens == pytest.approx(36791, abs=1)
    assert tier.read_bytes_per_s == 2 * 55.43e9


def test_windows_are_kept_as_the_last_one_or_token_by_token() -> None:
    # gpt-oss-120b: 36 layers of 2,048 B a token, 18 of them with a window of 128 tokens
    (last,) = kv_tiers(["dram-pcie5,capacity=1TB,windows=last"], end("gpt-oss-120b"))
    (every,) = kv_tiers(["dram-pcie5,capacity=1TB,windows=all"], end("gpt-oss-120b"))
    assert (last.bytes_per_token, last.fixed_bytes) == (18 * 2048, 18 * 128 * 2048)
    assert (every.bytes_per_token, every.fixed_bytes) == (36 * 2048, 0)
    # Mistral-7B-v0.1 has windows in all 32 layers of 4,096 B: its blocks are kept, or nothing would be
    (blocks,) = kv_tiers(["dram-pcie5,capacity=1TB"], end("mistralai/Mistral-7B-v0.1"))
    assert (blocks.bytes_per_token, blocks.fixed_bytes) == (32 * 4096, 0)


@pytest.mark.parametrize(
    ("tokens", "stored"),
    [
        # gemma-3-27b: 10 full layers and 52 of a window of 1,024, each 2 x 16 heads x 128 x 2 B = 8,192 B a token
        (100, 62 * 8192 * 100),
        (1024, 62 * 8192 * 1024),
        (3000, 10 * 8192 * 3000 + 52 * 8192 * 1024),
    ],
)
def test_a_prefix_shorter_than_a_window_fills_a_part_of_it(tokens: int, stored: int) -> None:
    (tier,) = kv_tiers(["dram-pcie5,capacity=1TB"], end("google/gemma-3-27b-it"))
    assert tier.bytes_of(tokens) == stored
    assert tier.read_s(tokens) == pytest.approx(stored / 55.43e9)
    # gpt-oss-120b on 16 ranks keeps its 8 heads twice: 36 layers of 2 x 2,048 B, 18 of them with a window of 128
    (wide,) = kv_tiers(["dram-pcie5,capacity=1TB"], end("gpt-oss-120b", 16))
    assert wide.bytes_of(64) == 36 * 4096 * 64
    assert wide.bytes_of(1000) == 18 * 4096 * (1000 + 128)


def test_windows_beside_states() -> None:
    # Qwen3-Next keeps 36 states whatever the length, and no window
    (tier,) = kv_tiers(["dram-pcie5,capacity=1TB"], end("Qwen/Qwen3-Next-80B-A3B-Instruct"))
    assert tier.bytes_of(1) == tier.fixed_bytes + tier.bytes_per_token and tier.windows == ()


def on_gpus(gpu: str, tp: int = 1) -> InstanceKind:
    return make_instance(as_model("Llama-3.1-8B"), load_gpu(gpu), Parallelism(tp=tp))


@pytest.mark.parametrize(
    ("text", "gpu", "tp", "reads", "told"),
    [
        # PCIe 5.0 x16 of an H100 carries 63 GB/s: of a node's 190 GB/s, or of 8 x 55.43, no more reach it
        ("store-mooncake-8x400", "h100-sxm", 1, 63e9, "190 GB/s do not reach one instance"),
        ("store-mooncake-8x400", "h100-sxm", 4, 190e9, None),
        ("dram-pcie5,count=8", "h100-sxm", 1, 63e9, "443 GB/s do not reach one instance"),
        ("dram-pcie5,count=8", "h100-sxm", 8, 8 * 55.43e9, None),
        ("dram-pcie5,bandwidth=500GB/s", "h100-sxm", 2, 126e9, "exceeds its peak, 63 GB/s"),
        ("dram-pcie5", "a100-sxm-80gb", 2, 63e9, "the peak of PCIe of 2 x a100-sxm-80gb"),  # 2 x 31.5
        ("nvme-gen4,count=12,write=1GB/s", "h100-sxm", 1, 63e9, "reads at 63 GB/s"),  # 12 x 6.5 = 78
        ("dram-c2c", "gb200", 1, 450e9, None),  # a wire of its own
        ("dram-pcie5,count=2", "b300-sxm", 1, 2 * 55.43e9, None),  # its file states no PCIe
    ],
)
def test_no_tier_is_faster_than_the_pcie_of_the_gpus(
    text: str, gpu: str, tp: int, reads: float, told: str | None
) -> None:
    (tier,) = kv_tiers([f"{text},capacity=1TB"], on_gpus(gpu, tp))
    assert tier.read_bytes_per_s == pytest.approx(reads)
    assert tier.peak_read_bytes_per_s is None or tier.peak_read_bytes_per_s >= reads * (1 - 1e-9)
    assert any(told in warning for warning in tier.warned) if told else not tier.warned
    assert tier.write_bytes_per_s <= (500e9 if gpu in ("gb200", "b300-sxm") else tp * 63e9)


def test_what_reads_are_counted_with_depends_on_the_size_of_copies() -> None:
    # Qwen2.5-0.5B on 2 ranks: 24 layers x 1 head x 64 x 2 x 2 B = 6,144 B a token, 1.57 MB a chunk of 256: from
    # 256 KiB in 20.165 us to 16 MiB in 342.392 us, 1,572,864 B take 20.165 + 322.227 x 1,310,720 / 16,515,072 =
    # 45.739 us: 34.388 GB/s of each of two wires
    (tier,) = kv_tiers(["dram-pcie5-lmcache,capacity=1TB,write=1GB/s"], end("Qwen/Qwen2.5-0.5B", 2))
    assert tier.read_bytes_per_s == pytest.approx(2 * 34.388e9, rel=1e-4)
    assert any("34.4 GB/s a gpu, as measured with copies of 1.57 MB" in said for said in tier.told)
    # 8 tokens of a rank are 49 kB, below the smallest that was measured
    (small,) = kv_tiers(["dram-pcie5-lmcache,capacity=1TB,write=1GB/s,chunk=8"], end("Qwen/Qwen2.5-0.5B", 2))
    assert small.read_bytes_per_s == 8e9
    assert any("smaller than any that were measured" in said for said in small.warned)
    (given,) = kv_tiers(["dram-pcie5-lmcache,capacity=1TB,bandwidth=40GB/s"], end("Qwen/Qwen2.5-0.5B"))
    assert given.read_bytes_per_s == 40e9 and not given.told
    # copies of 134 kB a token: 256 tokens of one rank are beyond 16 MiB
    (own,) = kv_tiers(
        ["dram-pcie5-lmcache,capacity=1TB,write=1GB/s,bytes_per_token=134kB"], end("gpt-oss-120b")
    )
    assert own.read_bytes_per_s == 49e9
    (drive,) = kv_tiers(["nvme-gen4,capacity=1TB,write=1GB/s"], end("gpt-oss-120b"))
    assert drive.read_bytes_per_s == 6.5e9
    assert "4.67 GB/s to 7.11 GB/s by the size of copies" in drive.told[0]


def test_ports_of_hand_overs_may_be_said_to_be_shared_or_not() -> None:
    texts = ("store-ib-ndr", "store-ib-ndr,on_link=no", "dram-pcie5,on_link=yes", "dram-c2c")
    found = [kv_tiers([f"{text},capacity=1TB"], end("gpt-oss-120b"))[0] for text in texts]
    assert [(tier.on_link, tier.wire) for tier in found] == [
        (True, "infiniband"), (False, None), (True, None), (False, "c2c")
    ]  # fmt: skip


def test_given_values_come_first() -> None:
    text = "nvme-gen4,capacity=2TB,bandwidth=5GB/s,write=3GB/s,per_chunk=1ms,chunk=64,shared=yes,count=2"
    (tier,) = kv_tiers([text], end("Llama-3.1-8B"))
    assert (tier.read_bytes_per_s, tier.write_bytes_per_s) == (10e9, 6e9)
    assert (tier.per_chunk_s, tier.chunk_tokens, tier.shared, tier.on_link) == (0.001, 64, True, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dram-pcie5", "needs capacity=500GiB"),
        ("nvme-gen4,capacity=1TB", "needs write=10GB/s (drives write slower"),
        ("nvme-gen4", "capacity=500GiB and write=10GB/s"),
        ("dram-pcie9,capacity=1TB", "did you mean 'dram-pcie5'"),
        ("dram-pcie5,capasity=1TB", "unknown key 'capasity'; did you mean 'capacity'?"),
        ("dram-pcie5,capacity", "capacity needs a value"),
        ("dram-pcie5,capacity=1TB,capacity=2TB", "given twice"),
        ("dram-pcie5,capacity=0B", "zero"),
        ("dram-pcie5,capacity=500Gb", "gigabit"),
        ("dram-pcie5,capacity=1TB,shared=maybe", "neither yes nor no"),
        ("dram-pcie5,capacity=1TB,windows=some", "neither all nor last"),
        ("dram-pcie5,capacity=1TB,count=1.5", "no whole number"),
        ("capacity=1TB", "expected NAME"),
        ("", "expected NAME"),
    ],
)
def test_what_is_absent_or_unknown_is_told_with_its_remedy(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        kv_tiers([text], end("Llama-3.1-8B"))
    assert told in str(caught.value)


def test_a_tier_is_named_once() -> None:
    with pytest.raises(InputError, match="given twice"):
        parse_tiers(["dram-pcie5,capacity=1TB", "dram-pcie5,capacity=2TB"])
    near, far = kv_tiers(["dram-pcie5,capacity=1TB", "dram-pcie5,capacity=2TB,name=far"], end("gpt-oss-120b"))
    assert (near.name, far.name, far.capacity_bytes) == ("dram-pcie5", "far", 2e12)


def test_errors_name_the_option_that_was_passed() -> None:
    with pytest.raises(InputError, match="--offload dram-pcie5 needs capacity=500GiB"):
        kv_tiers(["dram-pcie5"], end("Llama-3.1-8B"), "--offload")
    with pytest.raises(InputError, match="--reuse nvme-gen4 needs write"):
        kv_tiers(["nvme-gen4,capacity=1TB"], end("Llama-3.1-8B"), "--reuse")


def test_loading_what_is_cheaper_needs_a_tier() -> None:
    scenario = Scenario("Qwen3-0.6B", "h100-sxm", topology="1", settings=Settings(load="cheaper"))
    with pytest.raises(InputError, match="--load cheaper: there is no KV tier"):
        scenario.deployment()


def test_notes_say_what_counts_and_what_does_not() -> None:
    (measured,) = parse_tier("dram-pcie4,capacity=1TB").notes()
    assert "reads at 24.8 GB/s a gpu (measured)" in measured
    assert "latency not stated: none" in measured and "chunk not stated: 256 tokens" in measured
    (peak,) = parse_tier("store-eth-100,bandwidth=10GB/s,latency=1ms").notes()
    assert "reads as given" in peak and "latency" not in peak.replace("latency not", "")
    assert "(peak: no measured figure)" in parse_tier("dram-c2c").notes()[0]


def test_show_lists_tiers_and_one_of_them() -> None:
    listed = ask_show("tiers")
    assert {row["name"] for row in listed.entries} == set(tier_names())  # type: ignore[attr-defined]
    entry = ask_show("tiers", "nvme-gen4")
    assert entry.properties["copies of 64 KiB"] == "4.67 GB/s"  # type: ignore[attr-defined]
    assert "latency" in entry.absent  # type: ignore[attr-defined]
    assert len(entry.about.sources) == 3  # type: ignore[attr-defined]
