"""The packaged data files are complete, sourced and equal to what was published."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
GPUS = sorted((ROOT / "hardware" / "gpus").glob("*.toml"))
LINKS = sorted((ROOT / "hardware" / "links").glob("*.toml"))
MODELS = sorted((ROOT / "models").glob("*.json"))
FACTS = ROOT.parent / "shared" / "facts" / "models"

GPU_VALUES = {
    "peak_bf16", "peak_fp16", "peak_fp8", "peak_fp4", "peak_int8", "peak_tf32", "peak_fp32", "sustained_bf16",
    "memory_bandwidth", "memory", "memory_visible", "sm_count", "l2_cache",
    "nvlink_bandwidth", "pcie_bandwidth", "tdp",
}  # fmt: skip
MEASURED_NEVER_ABSENT = {"peak_bf16", "memory_bandwidth", "sm_count", "l2_cache", "pcie_bandwidth"}
NOT_SOLD_IN_GIB = {
    "b300-sxm": "288 GB",  # 275040 MiB by nvidia-smi: 288.4e9 bytes
    "gb300": "284208 MiB",  # sold as 288 GB, which is neither 288e9 bytes nor 288 GiB
}
LINK_VALUES = {"bandwidth", "sustained_bandwidth", "latency"}
PER = {"nvlink": "gpu", "pcie": "gpu", "infiniband": "port", "ethernet": "port", "efa": "adapter"}

FAMILIES = {
    "deepseek_v2", "deepseek_v3", "llama", "mistral", "mixtral",
    "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "opt",
}  # fmt: skip

# Read in other copies than the ones the comparison below reads: the fields those leave out.
READ_ELSEWHERE: dict[str, set[str]] = {
    "facebook--opt-13b": {"architectures", "torch_dtype"},
    "facebook--opt-66b": {"architectures", "torch_dtype"},
    "google--gemma-3-27b-it": {"text_config.vocab_size"},
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct": {"vision_config"},
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": {"vision_config"},
    "tiiuae--falcon-180B": {"torch_dtype", "max_position_embeddings", "alibi"},
    "zai-org--GLM-4.6": {"torch_dtype"},
    "mistralai--Mistral-Large-Instruct-2407": {
        "torch_dtype", "tie_word_embeddings", "sliding_window", "hidden_act",
    },
}  # fmt: skip


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def number(text: str) -> float:
    return float(text.split()[0])


def stem(path: Path) -> str:
    return path.stem if path.suffix == ".toml" else path.name.removesuffix(".json")


def test_nothing_is_missing() -> None:
    assert {path.stem for path in GPUS} >= {
        "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb",
        "h100-sxm", "h100-pcie", "h200-sxm", "h100-nvl", "h20", "h800-sxm", "a800-sxm-80gb",
        "b200-sxm", "b300-sxm", "gb200", "gb300", "a10", "a40", "l4", "l40s",
        "rtx-4090", "rtx-5090", "rtx-pro-6000-blackwell", "mi250x", "mi300x", "mi325x", "mi355x",
        "gaudi2", "gaudi3", "tpu-v5e", "tpu-v5p", "tpu-v6e", "trainium2", "ascend-910b",
    }  # fmt: skip
    assert {path.stem for path in LINKS} >= {
        "nvlink3", "nvlink4", "nvlink5", "pcie3-x16", "pcie4-x16", "pcie5-x16", "ib-hdr", "ib-ndr",
        "eth-25", "eth-100", "eth-200", "eth-400",
        "efa-p4d", "efa-p5", "efa-p5en", "efa-p6-b200", "efa-p6-b300",
    }  # fmt: skip
    assert {read_json(path)["model_type"] for path in MODELS} >= FAMILIES


@pytest.mark.parametrize("path", GPUS + LINKS, ids=stem)
def test_every_value_has_a_source_and_every_source_a_value(path: Path) -> None:
    data = read_toml(path)
    assert data["name"] == path.stem
    assert data["title"]
    for key, entry in data["values"].items():
        assert set(entry) == {"value", "source"}, key
        assert number(entry["value"]) > 0, key
    assert {entry["source"] for entry in data["values"].values()} == set(data["sources"])
    assert all(text.strip() for text in data["sources"].values())
    assert all(reason.strip() for reason in data.get("absent", {}).values())
    assert not set(data["values"]) & set(data.get("absent", {}))


@pytest.mark.parametrize("path", GPUS, ids=stem)
def test_gpu_keys(path: Path) -> None:
    data = read_toml(path)
    optional = {"absent", "efficiency", "tp_link"}
    assert set(data) - optional == {"name", "title", "generation", "values", "sources"}
    values = {key: entry["value"] for key, entry in data["values"].items()}
    assert set(values) | set(data.get("absent", {})) == GPU_VALUES
    if "tp_link" in data:  # boards without NVLink: collectives cross PCIe
        assert data["tp_link"] == "pcie_bandwidth"
        assert "pcie_bandwidth" in values and "nvlink_bandwidth" not in values
    assert data["generation"]
    if "efficiency" in data:
        assert set(values) >= MEASURED_NEVER_ABSENT
        assert (ROOT / "hardware" / "efficiency" / f"{data['efficiency']}.toml").is_file()
    for key, value in values.items():
        if key.startswith(("peak", "sustained")):
            assert value.endswith(" TFLOP/s"), key
        if key.endswith("_bandwidth"):
            assert value.endswith(" GB/s"), key
    # capacity is binary, bandwidth decimal
    if path.stem in NOT_SOLD_IN_GIB:
        assert values["memory"] == NOT_SOLD_IN_GIB[path.stem]
    else:
        assert values["memory"].endswith(" GiB")
    assert values.get("l2_cache", "1 MiB").endswith(" MiB")
    assert values.get("tdp", "1 W").endswith(" W")
    assert values.get("sm_count", "1").isdigit()
    if "memory_visible" in values:
        # the least: 15/16 where error correction takes its share of GDDR6, and 1 to 2 % for the driver
        assert values["memory_visible"].endswith(" GiB")
        assert 0.92 < number(values["memory_visible"]) / number(values["memory"]) < 1
    if "sustained_bf16" in values:
        assert 0.5 < number(values["sustained_bf16"]) / number(values["peak_bf16"]) < 1


@pytest.mark.parametrize(
    ("name", "generation", "efficiency", "absent"),
    [
        ("a100-sxm-40gb", "ampere", "a100-sxm-80gb--vllm-0.14.0", {"peak_fp8", "peak_fp4", "sustained_bf16"}),
        ("a100-sxm-80gb", "ampere", "a100-sxm-80gb--vllm-0.14.0", {"peak_fp8", "peak_fp4"}),
        (
            "a100-pcie-40gb",
            "ampere",
            "a100-sxm-80gb--vllm-0.14.0",
            {"peak_fp8", "peak_fp4", "sustained_bf16", "memory_visible", "nvlink_bandwidth"},
        ),
        (
            "a100-pcie-80gb",
            "ampere",
            "a100-sxm-80gb--vllm-0.14.0",
            {"peak_fp8", "peak_fp4", "memory_visible", "nvlink_bandwidth"},
        ),
        ("h100-sxm", "hopper", "h100-sxm--vllm-0.24.0", {"peak_fp4"}),
        (
            "h100-pcie",
            "hopper",
            "h100-sxm--vllm-0.24.0",
            {"peak_fp4", "sustained_bf16", "memory_visible", "nvlink_bandwidth"},
        ),
        ("h200-sxm", "hopper", "h100-sxm--vllm-0.24.0", {"peak_fp4", "sustained_bf16"}),
        ("h100-nvl", "hopper", "h100-sxm--vllm-0.24.0", {"peak_fp4", "sustained_bf16", "nvlink_bandwidth"}),
        ("b200-sxm", "blackwell", None, set()),
        ("gb200", "blackwell", None, {"sm_count"}),
        # sources that contradict each other are not chosen between
        (
            "b300-sxm",
            "blackwell",
            None,
            {"peak_fp4", "peak_int8", "memory_visible", "l2_cache", "pcie_bandwidth", "tdp"},
        ),
        ("mi300x", "cdna3", None, {"peak_fp4", "sm_count", "nvlink_bandwidth"}),
    ],
)
def test_gpu_families_and_what_is_absent(
    name: str, generation: str, efficiency: str | None, absent: set[str]
) -> None:
    data = read_toml(ROOT / "hardware" / "gpus" / f"{name}.toml")
    assert (data["generation"], data.get("efficiency")) == (generation, efficiency)
    assert set(data.get("absent", {})) == absent


@pytest.mark.parametrize("path", LINKS, ids=stem)
def test_link_keys(path: Path) -> None:
    data = read_toml(path)
    assert set(data) - {"absent"} == {"name", "title", "kind", "per", "values", "sources"}
    values = {key: entry["value"] for key, entry in data["values"].items()}
    expected = LINK_VALUES | ({"adapters_per_node"} if data["kind"] == "efa" else set())
    assert set(values) | set(data.get("absent", {})) == expected
    assert data["per"] == PER[data["kind"]]
    assert values["bandwidth"].endswith(" GB/s")
    if "sustained_bandwidth" in values:
        assert values["sustained_bandwidth"].endswith(" GB/s")
        assert 0.5 < number(values["sustained_bandwidth"]) / number(values["bandwidth"]) < 1
    if "latency" in values:
        assert values["latency"].endswith(" us")


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("a100-sxm-40gb", "memory_bandwidth", "1555 GB/s"),
        ("a100-sxm-80gb", "memory_bandwidth", "2039 GB/s"),
        ("a100-sxm-80gb", "peak_bf16", "312 TFLOP/s"),
        ("a100-sxm-80gb", "peak_int8", "624 TFLOP/s"),
        ("a100-sxm-80gb", "sustained_bf16", "271.2 TFLOP/s"),
        ("a100-sxm-80gb", "memory_visible", "79.25 GiB"),
        ("a100-sxm-80gb", "nvlink_bandwidth", "300 GB/s"),
        ("a100-pcie-80gb", "memory_bandwidth", "1935 GB/s"),
        ("a100-pcie-80gb", "l2_cache", "40 MiB"),
        ("a100-pcie-40gb", "tdp", "250 W"),
        ("h100-sxm", "peak_bf16", "989 TFLOP/s"),
        ("h100-sxm", "peak_int8", "1979 TFLOP/s"),
        ("h100-sxm", "memory_bandwidth", "3350 GB/s"),
        ("h100-sxm", "sm_count", "132"),
        ("h100-sxm", "memory_visible", "79.19 GiB"),
        ("h100-pcie", "peak_fp8", "1513 TFLOP/s"),
        ("h100-pcie", "sm_count", "114"),
        ("h200-sxm", "memory", "141 GiB"),
        ("h200-sxm", "memory_bandwidth", "4800 GB/s"),
        ("h200-sxm", "pcie_bandwidth", "63 GB/s"),
        ("h200-sxm", "memory_visible", "139.81 GiB"),
        # dense: half of the 1671 and 3341 with sparsity that NVIDIA prints
        ("h100-nvl", "peak_bf16", "835.5 TFLOP/s"),
        ("h100-nvl", "peak_fp8", "1670.5 TFLOP/s"),
        ("h20", "peak_fp8", "296 TFLOP/s"),
        ("h800-sxm", "nvlink_bandwidth", "200 GB/s"),  # 400 both directions
        ("a800-sxm-80gb", "nvlink_bandwidth", "200 GB/s"),
        ("b200-sxm", "peak_fp4", "9000 TFLOP/s"),
        ("b200-sxm", "nvlink_bandwidth", "900 GB/s"),  # 1800 both directions
        ("gb200", "peak_fp4", "10000 TFLOP/s"),
        ("gb200", "memory_visible", "184.31 GiB"),
        ("gb300", "peak_fp4", "15000 TFLOP/s"),
        ("l40s", "peak_fp8", "733 TFLOP/s"),
        ("l40s", "memory_bandwidth", "864 GB/s"),
        ("rtx-4090", "peak_fp8", "330.3 TFLOP/s"),
        ("rtx-5090", "peak_fp4", "1676 TFLOP/s"),  # 3352 with sparsity
        ("rtx-pro-6000-blackwell", "peak_fp4", "1871.2 TFLOP/s"),
        ("mi300x", "peak_bf16", "1307.4 TFLOP/s"),
        ("mi300x", "memory", "192 GiB"),
        ("mi325x", "memory_bandwidth", "6000 GB/s"),
        ("mi355x", "peak_fp4", "10100 TFLOP/s"),
        ("gaudi2", "sustained_bf16", "418.7 TFLOP/s"),
        ("gaudi3", "memory_bandwidth", "3700 GB/s"),
        ("tpu-v5e", "memory", "16 GiB"),
        ("tpu-v5p", "peak_bf16", "459 TFLOP/s"),
        ("tpu-v6e", "memory_bandwidth", "1638 GB/s"),
        ("trainium2", "memory", "96 GiB"),
        ("ascend-910b", "memory_visible", "60.97 GiB"),
    ],
)
def test_gpu_values_typed_by_hand(name: str, key: str, value: str) -> None:
    assert read_toml(ROOT / "hardware" / "gpus" / f"{name}.toml")["values"][key]["value"] == value


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("nvlink3", "bandwidth", "300 GB/s"),
        ("nvlink4", "sustained_bandwidth", "396.4 GB/s"),
        ("nvlink5", "bandwidth", "900 GB/s"),
        ("pcie3-x16", "bandwidth", "15.75 GB/s"),
        ("pcie4-x16", "bandwidth", "31.5 GB/s"),
        ("pcie5-x16", "sustained_bandwidth", "55.43 GB/s"),
        ("ib-hdr", "bandwidth", "25 GB/s"),
        ("ib-hdr", "latency", "0.6 us"),
        ("ib-ndr", "bandwidth", "50 GB/s"),
        ("eth-25", "bandwidth", "3.125 GB/s"),
    ],
)
def test_link_values_typed_by_hand(name: str, key: str, value: str) -> None:
    assert read_toml(ROOT / "hardware" / "links" / f"{name}.toml")["values"][key]["value"] == value


@pytest.mark.parametrize(
    ("name", "node_peak", "node_sustained"),
    [
        # GB/s of the whole node, as published and as measured by GPU-to-GPU writes of 1 MiB
        ("efa-p4d", 50, None),
        ("efa-p5", 400, 388.9),
        ("efa-p5en", 400, 365.7),
        ("efa-p6-b200", 400, 302),
        ("efa-p6-b300", 800, 780.3),
    ],
)
def test_efa_adapters_add_up_to_the_node(name: str, node_peak: float, node_sustained: float | None) -> None:
    values = read_toml(ROOT / "hardware" / "links" / f"{name}.toml")["values"]
    adapters = number(values["adapters_per_node"]["value"])
    assert adapters * number(values["bandwidth"]["value"]) == node_peak
    if node_sustained is None:
        assert "sustained_bandwidth" not in values
    else:
        sustained = number(values["sustained_bandwidth"]["value"])
        assert adapters * sustained == pytest.approx(node_sustained, abs=0.05)


@pytest.mark.parametrize("path", MODELS, ids=stem)
def test_model_has_source_and_type(path: Path) -> None:
    config = read_json(path)
    assert len(config["_source"]) > 20
    assert config["model_type"]
    organisation, separator, name = path.name.removesuffix(".json").partition("--")
    assert organisation and separator and name
    assert not {"bos_token_id", "eos_token_id", "auto_map"} & set(config)


def flat(config: dict[str, Any], inside: str = "") -> dict[str, Any]:
    """Fields by their dotted path."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= flat(value, f"{inside}{key}.") if isinstance(value, dict) else {f"{inside}{key}": value}
    return found


@pytest.mark.skipif(not FACTS.is_dir(), reason="the published configurations are not beside this checkout")
def test_model_fields_equal_the_published_config() -> None:
    compared = 0
    for path in MODELS:
        name = path.name.removesuffix(".json")
        published_file = FACTS / name / "config.json"
        if not published_file.is_file():
            continue
        published, compared = flat(read_json(published_file)), compared + 1
        carried = {key: value for key, value in flat(read_json(path)).items() if key != "_source"}
        elsewhere = READ_ELSEWHERE.get(name, set())
        others = {key for key in carried if key in elsewhere or key.split(".")[0] in elsewhere}
        assert set(carried) - set(published) == others, name
        assert {key: published[key] for key in carried if key not in others} == {
            key: value for key, value in carried.items() if key not in others
        }, name
    assert compared >= 32


def test_qwen15_moe_fields_give_the_published_count() -> None:
    """Keras Hub states 14,315,784,192 parameters; counted here matrix by matrix."""
    config = read_json(ROOT / "models" / "Qwen--Qwen1.5-MoE-A2.7B.json")
    hidden, layers, experts = config["hidden_size"], config["num_hidden_layers"], config["num_experts"]
    attention = 4 * hidden * hidden + 3 * hidden  # 16 heads of 128, bias on q, k, v
    routed = experts * 3 * hidden * config["moe_intermediate_size"]
    shared = 3 * hidden * config["shared_expert_intermediate_size"] + hidden  # and its gate
    layer = attention + routed + shared + hidden * experts + 2 * hidden
    assert layers * layer + 2 * config["vocab_size"] * hidden + hidden == 14_315_784_192
    assert config["tie_word_embeddings"] is False


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("deepseek-ai--DeepSeek-V2-Lite", "q_lora_rank", None),
        ("deepseek-ai--DeepSeek-V2-Lite", "kv_lora_rank", 512),
        ("deepseek-ai--DeepSeek-V3", "num_nextn_predict_layers", 1),
        ("deepseek-ai--DeepSeek-V3", "first_k_dense_replace", 3),
        ("mistralai--Mistral-7B-v0.1", "sliding_window", 4096),
        ("mistralai--Mistral-7B-v0.3", "sliding_window", None),
        ("Qwen--Qwen3-30B-A3B", "mlp_only_layers", []),
        ("facebook--opt-66b", "ffn_dim", 36864),
    ],
)
def test_model_values_typed_by_hand(name: str, key: str, value: object) -> None:
    config = read_json(ROOT / "models" / f"{name}.json")
    assert key in config
    assert config[key] == value


def test_fields_the_published_file_omits_stay_omitted() -> None:
    assert "tie_word_embeddings" not in read_json(ROOT / "models" / "meta-llama--Llama-2-7b-hf.json")
    assert "head_dim" not in read_json(ROOT / "models" / "meta-llama--Llama-3.1-8B.json")
    assert "max_position_embeddings" not in read_json(
        ROOT / "models" / "mistralai--Mistral-Large-Instruct-2407.json"
    )
