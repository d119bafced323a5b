"""Packaged hardware loads and holds what was published; a wrong file gives one error, every problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from costmodel.data import load_toml, resource_names
from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.efficiency import (
    BORROWED,
    efficiency_for,
    efficiency_names,
    load_efficiency,
)
from costmodel.inputs.hardware import SCHEMA, gpu_names, load_gpu
from costmodel.inputs.link import connector_names, link_names, load_connector, load_link
from costmodel.operators.catalogue import FORMS, KINDS, PARAMETERS
from costmodel.questions.show import HardwareEntry, ask_show
from costmodel.serving.instance import make_instance

GPU = """
name = "mine"
title = "A board"
generation = "hopper"
efficiency = "h100-sxm--vllm-0.24.0"
[values]
peak_bf16 = { value = "900 TFLOP/s", source = "sheet" }
memory = { value = "96 GiB", source = "sheet" }
memory_bandwidth = { value = "4 TB/s", source = "sheet" }
sm_count = { value = "132", source = "sheet" }
[absent]
memory_visible = "no log at hand"
[sources]
sheet = "data sheet of the vendor, page 3"
"""
LINK = """
name = "mine"
title = "A link"
kind = "ethernet"
per = "port"
[values]
bandwidth = { value = "200 Gb/s", source = "sheet" }
[absent]
latency = "not measured"
[sources]
sheet = "line rate"
"""
CONNECTOR = """
name = "mine"
title = "A connector"
block_tokens = 16
block_rule = "ceil"
[values]
latency = { value = "1 ms", source = "log" }
bandwidth_share = { value = "0.8", source = "log" }
[error]
fitted_mape = 0.02
[sources]
log = "own log"
"""
EFFICIENCY = """
gpu = "mine"
stack = "vllm-1"
date = "2026-01-31"
[operators.gemm]
form = "tiled_gemm"
compute_share = 0.75
bandwidth_share = 1.0
latency = "6.2 us"
tile_edge = 12
source = "own table"
points = 40
held_out_points = 20
split = "every third row held out"
fitted_mape = 0.05
held_out_mape = 0.07
"""
LOADERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "gpu": (GPU, load_gpu),
    "link": (LINK, load_link),
    "connector": (CONNECTOR, load_connector),
    "efficiency": (EFFICIENCY, load_efficiency),
}


def write(folder: Path, text: str | bytes, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems_of(kind: str, folder: Path, *edits: tuple[str, str]) -> tuple[str, ...]:
    """Load the good file of ``kind`` after replacing texts; return the problems of the one error."""
    text, loader = LOADERS[kind]
    for old, new in edits:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    path = write(folder, text)
    with pytest.raises(InputError) as caught:
        loader(path)
    assert caught.value.where == str(path)
    return caught.value.problems


def test_every_packaged_file_loads_under_its_own_name() -> None:
    assert len(gpu_names()) >= 33 and len(link_names()) >= 17 and len(connector_names()) >= 3
    assert [load_gpu(name).name for name in gpu_names()] == list(gpu_names())
    assert [load_link(name).name for name in link_names()] == list(link_names())
    assert [load_connector(name).name for name in connector_names()] == list(connector_names())
    files = [(name, load_efficiency(name)) for name in efficiency_names()]
    assert all(name.startswith(f"{file.gpu}--{file.stack.split(' ')[0]}") for name, file in files)
    assert {file.gpu for _, file in files} >= {"a100-sxm-80gb", "h100-sxm", "a40", "rtx-pro-6000-blackwell"}


@pytest.mark.parametrize("name", gpu_names())
def test_packaged_gpus_explain_what_they_lack_and_have_efficiencies(name: str) -> None:
    gpu = load_gpu(name)
    assert set(gpu.values) | set(gpu.absent) == set(SCHEMA)
    assert all(len(entry.source) > 10 and entry.value > 0 for entry in gpu.values.values())
    if not name.startswith(NVIDIA):
        with pytest.raises(InputError, match=rf"no operator of {name}, or of a GPU.*--efficiency NAME\|FILE"):
            efficiency_for(gpu)
        return
    fits = efficiency_for(gpu).operators
    needed = {
        "gemm",
        "attention_prefill",
        "attention_decode",
        "attention_mixed",
        "mla_prefill",
        "mla_decode",
        "moe",
    }
    assert set(fits) >= needed | {
        "norm",
        "rope",
        "activation",
        "embedding",
        "all_reduce",
        "custom_all_reduce",
    }
    assert all(fit.error >= fit.held_out_mape for fit in fits.values())


NVIDIA = ("a10", "a40", "a800", "b200", "b300", "gb", "h", "l4", "rtx")


@pytest.mark.parametrize(
    ("name", "bf16", "bandwidth", "memory", "memory_kind", "sms"),
    [
        # data sheets; visible memory from engine logs; GiB are 2**30 = 1,073,741,824 bytes
        ("a100-sxm-80gb", 312e12, 2.039e12, 79.25 * 1_073_741_824, "visible", 108),
        ("a100-sxm-40gb", 312e12, 1.555e12, 39.5 * 1_073_741_824, "visible", 108),
        ("a100-pcie-80gb", 312e12, 1.935e12, 85_899_345_920, "nominal", 108),
        ("h100-sxm", 989e12, 3.35e12, 79.19 * 1_073_741_824, "visible", 132),
        ("h100-pcie", 756e12, 2.0e12, 85_899_345_920, "nominal", 114),
        ("h200-sxm", 989e12, 4.8e12, 139.81 * 1_073_741_824, "visible", 132),
        ("h100-nvl", 835.5e12, 3.9e12, 93.02 * 1_073_741_824, "visible", 132),
        ("h20", 148e12, 4e12, 96 * 1_073_741_824, "nominal", 78),
        ("h800-sxm", 989e12, 3.35e12, 85_899_345_920, "nominal", 132),
        ("a800-sxm-80gb", 312e12, 2.039e12, 85_899_345_920, "nominal", 108),
        ("b200-sxm", 2250e12, 7.7e12, 178.35 * 1_073_741_824, "visible", 148),
        ("b300-sxm", 2250e12, 7.75e12, 288e9, "nominal", 148),  # sold as 288 decimal GB
        ("a10", 125e12, 0.6e12, 22.18 * 1_073_741_824, "visible", 72),
        ("a40", 149.7e12, 0.696e12, 48 * 1_073_741_824, "nominal", 84),
        ("l4", 121e12, 0.3e12, 24 * 1_073_741_824, "nominal", 60),
        ("l40s", 362e12, 0.864e12, 44.53 * 1_073_741_824, "visible", 142),
        ("rtx-4090", 165.2e12, 1.008e12, 23.64 * 1_073_741_824, "visible", 128),
        ("rtx-pro-6000-blackwell", 467.8e12, 1.792e12, 96 * 1_073_741_824, "nominal", 188),
    ],
)
def test_gpu_figures_typed_by_hand(
    name: str, bf16: float, bandwidth: float, memory: float, memory_kind: str, sms: int
) -> None:
    gpu = load_gpu(name)
    assert gpu.peak_flop_per_s("bf16") == gpu.get("peak_bf16") == bf16
    assert gpu.memory_bytes_per_s == bandwidth
    assert gpu.memory_bytes == pytest.approx(memory, rel=1e-12)
    assert (gpu.memory_kind, gpu.sm_count) == (memory_kind, sms)


@pytest.mark.parametrize(
    ("name", "bandwidth", "per"),
    [
        # one direction: half of the two-way NVLink figure; PCIe lanes x rate x 128/130 / 8; Gb/s / 8
        ("nvlink3", 300e9, "gpu"),
        ("nvlink4", 450e9, "gpu"),
        ("nvlink5", 900e9, "gpu"),
        ("pcie3-x16", 15.75e9, "gpu"),
        ("pcie4-x16", 31.5e9, "gpu"),
        ("pcie5-x16", 63e9, "gpu"),
        ("ib-hdr", 25e9, "port"),
        ("ib-ndr", 50e9, "port"),
        ("eth-25", 3.125e9, "port"),
        ("eth-100", 12.5e9, "port"),
        ("efa-p4d", 12.5e9, "adapter"),
    ],
)
def test_link_figures_typed_by_hand(name: str, bandwidth: float, per: str) -> None:
    link = load_link(name)
    assert (link.bandwidth_bytes_per_s, link.per) == (bandwidth, per)
    assert link.sustained_bytes_per_s is None or link.sustained_bytes_per_s < bandwidth


def test_latency_is_none_only_with_a_reason() -> None:
    assert load_link("ib-hdr").latency_s == 0.6e-6
    for link in map(load_link, link_names()):
        assert (link.latency_s is None) == ("latency" in link.absent)
        assert (link.sustained_bytes_per_s is None) == ("sustained_bandwidth" in link.absent)
    assert load_link("efa-p5").adapters_per_node == 32
    assert load_link("ib-hdr").adapters_per_node is None


def test_connectors_round_to_blocks_as_published() -> None:
    vllm = load_connector("mooncake-vllm")
    assert (vllm.block_tokens, vllm.block_rule) == (16, "floor_plus_one")
    assert 0 < vllm.bandwidth_share <= 1 and 0 < vllm.latency_s < 0.01
    assert vllm.held_out_mape is not None and vllm.held_out_mape < 0.075


def test_absent_value_of_a_connector_quotes_its_reason() -> None:
    nixl = load_connector("nixl")
    assert nixl.per_descriptor_s is not None and 3e-6 < nixl.per_descriptor_s < 4e-6
    assert nixl.control_s is None and nixl.absent["control"]
    with pytest.raises(InputError) as caught:
        _ = nixl.latency_s
    assert nixl.absent["latency"] in str(caught.value)
    with pytest.raises(InputError, match="did you mean 'latency'"):
        nixl.get("latncy")


def test_absent_peak_quotes_the_file_and_lists_the_others() -> None:
    with pytest.raises(InputError) as caught:
        load_gpu("a100-sxm-80gb").peak_flop_per_s("fp8")
    message = str(caught.value)
    assert "Ampere has no FP8 tensor cores" in message
    assert "bf16, fp16, int8, tf32, fp32" in message and "TOML" in message
    assert load_gpu("h100-sxm").peak_flop_per_s("fp8") == 1979e12
    with pytest.raises(InputError, match="did you mean 'bf16'"):
        load_gpu("h100-sxm").peak_flop_per_s("bf-16")


def test_absent_value_says_how_to_supply_it(tmp_path: Path) -> None:
    gpu = load_gpu(write(tmp_path, GPU))
    assert (gpu.memory_kind, gpu.memory_bytes) == ("nominal", 96 * 1_073_741_824)
    assert gpu.values["memory"].source == "data sheet of the vendor, page 3"
    with pytest.raises(InputError, match=r"mine has no memory_visible: no log at hand; .*TOML"):
        gpu.get("memory_visible")
    with pytest.raises(InputError, match=r"mine has no tdp: its file does not state it"):
        gpu.get("tdp")
    with pytest.raises(InputError, match="did you mean 'memory'"):
        gpu.get("memry")


def test_efficiency_is_borrowed_where_the_board_is_another() -> None:
    own = efficiency_for(load_gpu("h100-sxm"))
    assert (own.gpu, own.borrowed_from, own.operators["gemm"].borrowed) == ("h100-sxm", None, None)
    # other stacks of the same board are its own; what nobody measured on it comes from the nearest generation
    assert (own.operators["norm"].stack, own.operators["norm"].borrowed) == ("vidur", None)
    assert own.operators["attention_mixed"].borrowed in ("rtx-4090", "rtx-pro-6000-blackwell")
    borrowed = efficiency_for(load_gpu("h200-sxm"))
    assert (borrowed.gpu, borrowed.borrowed_from) == ("h100-sxm", "h100-sxm")
    assert borrowed.operators["gemm"].parameters == own.operators["gemm"].parameters
    assert borrowed.operators["gemm"].borrowed == "h100-sxm"


@pytest.mark.parametrize(
    ("gpu", "kind", "lender"),
    [
        ("a100-pcie-80gb", "gemm", "a100-sxm-80gb"),
        ("h200-sxm", "attention_decode", "h100-sxm"),
        # the nearest generation of the same line: data-centre boards, and the others
        ("b200-sxm", "gemm", "h100-sxm"),
        ("l40s", "gemm", "rtx-4090"),
        ("l4", "attention_prefill", "rtx-4090"),
        ("rtx-5090", "gemm", "rtx-pro-6000-blackwell"),
        ("a10", "gemm", "a40"),
        ("a40", "attention_prefill", "rtx-4090"),
        # Ampere has no fp8; its 8-bit integer products are the Hopper's fp8 ones
        ("a100-sxm-80gb", "gemm_fp8", "h100-sxm"),
        ("b200-sxm", "all_reduce", None),
    ],
)
def test_lenders_are_the_nearest_generation(gpu: str, kind: str, lender: str | None) -> None:
    assert efficiency_for(load_gpu(gpu)).operators[kind].borrowed == lender


def test_a_borrowed_fit_counts_with_the_error_of_carrying_it() -> None:
    own, borrowed = (efficiency_for(load_gpu(name)).operators for name in ("h100-sxm", "h200-sxm"))
    for kind in ("gemm", "attention_prefill", "attention_decode", "moe"):
        fit = own[kind]
        assert fit.error == fit.held_out_mape
        # measured: the H100's fit on the A100
        assert fit.carried_to == "a100-sxm-80gb" and fit.carried_mape is not None
        assert borrowed[kind].error == max(fit.carried_mape, fit.held_out_mape)
    # never carried along this line: by the factor of those that were
    for kind in ("gemm_fp8", "mla_decode", "attention_mixed"):
        assert borrowed[kind].error == pytest.approx(BORROWED * borrowed[kind].held_out_mape)


def test_the_factor_of_borrowing_is_the_mean_over_what_was_carried() -> None:
    ratios = [
        fit.carried_mape / fit.held_out_mape
        for name in efficiency_names()
        for fit in load_efficiency(name).operators.values()
        if fit.carried_mape is not None and "eager" not in name
    ]
    assert len(ratios) > 50
    assert pytest.approx(math.exp(sum(map(math.log, ratios)) / len(ratios)), abs=0.1) == BORROWED


def test_gpu_without_measured_operators_needs_its_memory_alone(tmp_path: Path) -> None:
    lines = [
        line for line in GPU.splitlines() if not line.startswith(("efficiency", "peak", "memory_b", "sm_"))
    ]
    gpu = load_gpu(write(tmp_path, "\n".join(lines)))
    assert (gpu.efficiency, gpu.memory_bytes) == (None, 96 * 1_073_741_824)
    with pytest.raises(InputError, match="mine has no memory_bandwidth: its file does not state it"):
        _ = gpu.memory_bytes_per_s
    # a Hopper: measured ones are near
    assert efficiency_for(gpu).borrowed_from == "h100-sxm"
    lines = [line.replace('"hopper"', '"own"') for line in lines]
    alone = load_gpu(write(tmp_path, "\n".join(lines)))
    with pytest.raises(InputError) as caught:
        efficiency_for(alone)
    message = str(caught.value)
    assert "no operator of mine, or of a GPU of a generation near it, was measured" in message
    assert "--efficiency NAME|FILE" in message and "packaged: a100-sxm-80gb--nccl-2.27.3, " in message
    assert efficiency_for(alone, "h100-sxm--vllm-0.24.0").borrowed_from == "h100-sxm"


def test_step_times_of_an_unmeasured_gpu_can_be_borrowed() -> None:
    model, gpu = read_model("Llama-3.1-8B"), load_gpu("mi300x")
    with pytest.raises(InputError, match="no operator of mi300x, or of a GPU of a generation near it"):
        make_instance(model, gpu)
    borrowed = make_instance(model, gpu, efficiency="h100-sxm--vllm-0.24.0")
    assert borrowed.efficiency.borrowed_from == "h100-sxm"
    assert borrowed.efficiency.operators["gemm"].borrowed == "h100-sxm"


def test_efficiency_path_is_relative_to_the_gpu_file(tmp_path: Path) -> None:
    write(tmp_path, EFFICIENCY, "fits.toml")
    gpu = load_gpu(write(tmp_path, GPU.replace('"h100-sxm--vllm-0.24.0"', '"fits.toml"')))
    gemm = efficiency_for(gpu).operators["gemm"]
    assert gemm.parameters == {
        "compute_share": 0.75, "bandwidth_share": 1.0, "latency": 6.2e-6, "tile_edge": 12.0,
    }  # fmt: skip
    assert (gemm.points, gemm.held_out_mape, gemm.held_out_bias, gemm.stack) == (40, 0.07, None, "vllm-1")
    assert efficiency_for(gpu).borrowed_from is None


def test_packaged_fits_are_complete() -> None:
    for efficiency in map(load_efficiency, efficiency_names()):
        assert set(efficiency.operators) <= set(KINDS)
        for fit in efficiency.operators.values():
            form = FORMS[fit.form]
            assert len(form.fitted) <= 4  # and what a kernel does is no parameter
            assert set(fit.parameters) == {*form.fitted, *form.stated}
            for name in form.fitted:
                assert PARAMETERS[name].low <= fit.parameters[name] <= PARAMETERS[name].high
            assert fit.points > 0 and fit.held_out_points > 0 and len(fit.source) > 10 and fit.fitted_on
            assert 0 < fit.held_out_mape < 0.3
    assert "gemm_fp8" not in load_efficiency("a100-sxm-80gb--vllm-0.14.0").operators


def test_hashable_and_frozen() -> None:
    assert len({load_gpu("h100-sxm"), load_gpu("h100-sxm"), load_gpu("h200-sxm")}) == 2
    with pytest.raises(AttributeError):
        load_link("ib-hdr").name = "other"  # type: ignore[misc]


WRONG: list[tuple[str, list[tuple[str, str]], list[str]]] = [
    (
        "gpu",
        [
            ("memory_bandwidth", "memory_bandwith"),
            ("900 TFLOP/s", "900 TFLOPS"),
            ("132", "132.5"),
            ('title = "A board"\n', ""),
        ],
        [
            "missing key 'title'",
            "missing key 'values.memory_bandwidth'; nearest present: 'values.memory_bandwith'",
            "unknown key 'values.memory_bandwith'; did you mean 'values.memory_bandwidth'?",
            "values.peak_bf16.value: '900 TFLOPS': unknown unit 'TFLOPS'; did you mean 'TFLOP/s'?",
            "values.sm_count: '132.5' is not a whole number",
        ],
    ),
    (
        "gpu",
        [
            ('"96 GiB", source = "sheet"', '"96Gb", source = "shet"'),
            ('"4 TB/s"', '"3,35 TB/s"'),
            ('"A board"', '""'),
        ],
        [
            "values.memory.source: unknown source 'shet'; did you mean 'sheet'?",
            "values.memory.value: '96Gb': Gb is gigabit; write '96 GB'",
            "values.memory_bandwidth.value: '3,35 TB/s': a decimal comma is refused",
            "title: '' is not a text",
        ],
    ),
    (
        "gpu",
        [("memory_visible =", "memory ="), ('{ value = "132", source = "sheet" }', "132"), ('"hopper"', "9")],
        [
            "'memory' stands in [values] and in [absent]",
            "values.sm_count: 132 is not a table",
            "generation: 9 is not a text",
        ],
    ),
    (
        "gpu",
        [
            ("[absent]\n", 'memory_visible = { value = "97 GiB", source = "sheet" }\n[absent]\n'),
            ('memory_visible = "no', 'l2_cach = "no'),
            ('"4 TB/s"', "4e12"),
        ],
        [
            "values.memory_visible: '97 GiB' exceeds values.memory, '96 GiB'",
            "unknown key 'absent.l2_cach'; did you mean 'absent.l2_cache'?",
            "values.memory_bandwidth.value: 4000000000000.0 is not a quoted text",
        ],
    ),
    (
        "gpu",
        [
            ('peak_bf16 = { value = "900 TFLOP/s", source = "sheet" }', "peak_bf16 = {}"),
            ("[sources]", "[source]"),
        ],
        [
            "missing key 'sources'; nearest present: 'source'",
            "unknown key 'source'; did you mean 'sources'?",
            "missing key 'values.peak_bf16.value'",
            "missing key 'values.peak_bf16.source'",
            "values.memory.source: unknown source 'sheet'",
            "values.memory_bandwidth.source: unknown source 'sheet'",
            "values.sm_count.source: unknown source 'sheet'",
        ],
    ),
    (
        "link",
        [("200 Gb/s", "0 Gb/s"), ("ethernet", "ethernt"), ('per = "port"', 'per = "node"')],
        [
            "values.bandwidth.value: '0 Gb/s' is zero",
            "kind: unknown value 'ethernt'; did you mean 'ethernet'?",
            "per: unknown value 'node'",
        ],
    ),
    (
        "link",
        [
            ("bandwidth = {", 'sustained_bandwidth = { value = "26 GB/s", source = "sheet" }\nbandwidth = {'),
            ("not measured", " "),
        ],
        ["values.sustained_bandwidth: '26 GB/s' exceeds values.bandwidth, '200 Gb/s'", "absent.latency: ' '"],
    ),
    (
        "link",
        [("200 Gb/s", "nan GB/s"), ("[absent]", "[absnt]")],
        ["not a finite number", "unknown key 'absnt'; did you mean 'absent'?"],
    ),
    (
        "connector",
        [
            ("block_tokens = 16", "block_tokens = 0"),
            ('"ceil"', '"floor"'),
            ('"0.8"', '"1.2"'),
            ('latency = { value = "1 ms"', 'control = { value = "-1 ms"'),
            ("0.02", '"2 %"'),
        ],
        [
            "block_tokens: 0 is not a whole number, at least 1",
            "block_rule: unknown value 'floor'",
            "values.bandwidth_share: '1.2' is not in (0, 1]",
            "missing key 'values.latency', or the reason under 'absent.latency'",
            "values.control.value: '-1 ms' is negative",
            "error.fitted_mape: '2 %' is not a number",
        ],
    ),
    (
        "efficiency",
        [
            ("compute_share = 0.75", "compute_share = 75"),
            ("bandwidth_share = 1.0", "bandwidth_share = nan"),
            ("6.2 us", "6.2us"),
            ("tile_edge = 12", "tile_edg = 12"),
            ("points = 40", "points = 40.5"),
            ("fitted_mape = 0.05", f"fitted_mape = 1{'0' * 400}"),
            ('stack = "vllm-1"\n', ""),
        ],
        [
            "missing key 'stack'",
            "operators.gemm.compute_share: 75 is not a number in [0.01, 1]",
            "operators.gemm.bandwidth_share: nan is not a number in [0.01, 1]",
            "operators.gemm.latency: '6.2us': exactly one space stands before a unit: '6.2 us'",
            "missing key 'operators.gemm.tile_edge'; nearest present: 'operators.gemm.tile_edg'",
            "unknown key 'operators.gemm.tile_edg'; did you mean 'operators.gemm.tile_edge'?",
            "operators.gemm.points: 40.5 is not a whole number",
            "operators.gemm.fitted_mape: 1000",
        ],
    ),
    (
        "efficiency",
        [('form = "tiled_gemm"', 'form = "collective"'), ("tile_edge = 12\n", "")],
        [
            "operators.gemm.form: unknown value 'collective' (one of tiled_gemm)",
            "missing key 'operators.gemm.step_latency'",
            "missing key 'operators.gemm.ramp_bytes'",
            "unknown key 'operators.gemm.compute_share'",
        ],
    ),
    (
        "efficiency",
        [('form = "tiled_gemm"', 'form = "tild_gemm"'), ("split =", "splt =")],
        [
            "operators.gemm.form: unknown value 'tild_gemm'; did you mean 'tiled_gemm'?",
            "missing key 'operators.gemm.split'; nearest present: 'operators.gemm.splt'",
            "unknown key 'operators.gemm.splt'; did you mean 'operators.gemm.split'?",
        ],
    ),
    (
        "efficiency",
        [("[operators.gemm]", "[operators.gem]")],
        ["unknown key 'operators.gem'; did you mean 'operators.gemm'?"],
    ),
]


@pytest.mark.parametrize(("kind", "edits", "expected"), WRONG)
def test_wrong_file_gives_one_error_with_every_problem(
    kind: str, edits: list[tuple[str, str]], expected: list[str], tmp_path: Path
) -> None:
    problems = problems_of(kind, tmp_path, *edits)
    for text in expected:
        assert any(text in problem for problem in problems), (text, problems)
    assert len(problems) == len(expected), problems


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"# only a remark\n", "is empty"),
        (b'name = "mine"\ntitle = \n', "line 2, column 9"),
        (b'name = "mine"\n[values\n', "line 2, column 8"),
        (b'name = """mine\n', "line 2, column 1"),
        (b'name = "mine"\nname = "yours"\n', "line 2"),
        (b"name = " + b"[" * 100_000, "is not TOML"),
        (b'name = "\xff\xfe"\n', "is not UTF-8 text (line 1, byte 8)"),
    ],
)
def test_unreadable_text_is_one_problem_with_its_place(content: bytes, expected: str, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        load_toml(path)
    assert caught.value.where == str(path) and len(caught.value.problems) == 1
    assert expected in caught.value.problems[0]


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_gpu(tmp_path / "none.toml")
    with pytest.raises(InputError, match="is a folder"):
        load_gpu(tmp_path)
    with pytest.raises(InputError, match="is a folder"):
        load_gpu(f"{tmp_path}/")
    with pytest.raises(InputError, match="cannot be read"):
        load_gpu(write(tmp_path, GPU) / "below.toml")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"mine\.toml: cannot be read: Permission denied"):
        load_toml(tmp_path / "mine.toml")


def test_packaged_name_wins_and_anything_else_must_look_like_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GPU, "h100-sxm")
    write(tmp_path, GPU, "mine")
    write(tmp_path, GPU, "mine.toml")
    assert load_gpu("h100-sxm").name == "h100-sxm"
    assert load_gpu("./h100-sxm").name == "mine"
    assert load_gpu("mine.toml").name == "mine"
    with pytest.raises(InputError, match=r"unknown GPU 'mine'.*path of a TOML file"):
        load_gpu("mine")
    with pytest.raises(InputError, match=r"unknown GPU 'A100-SXM-80GB'; did you mean 'a100-sxm-80gb'\?"):
        load_gpu("A100-SXM-80GB")
    with pytest.raises(InputError, match=r"unknown link 'ib_hdr'; did you mean 'ib-hdr'\?"):
        load_link("ib_hdr")


def test_resource_names_are_sorted_stems() -> None:
    names = resource_names("costmodel._hardware", "links")
    assert list(names) == sorted(names) and "ib-hdr" in names and not any("." in name for name in names)


def test_show_tells_that_no_operator_was_measured() -> None:
    rows = {str(row["name"]): row for row in ask_show("hardware").entries}  # type: ignore[attr-defined]
    assert set(rows) == set(gpu_names())
    assert rows["h200-sxm"]["efficiencies_of"] == "h100-sxm" and rows["mi300x"]["efficiencies_of"] is None
    assert rows["ascend-910b"]["memory_bytes_per_s"] is None
    entry = ask_show("hardware", "mi300x")
    assert isinstance(entry, HardwareEntry)
    assert (entry.efficiency_stack, entry.efficiencies) == (None, ())
    assert entry.about.warnings == (
        "no operator of it, or of a GPU of a generation near it, was measured: step times need --efficiency",
    )
    assert "304 compute units" in entry.absent["sm_count"]
