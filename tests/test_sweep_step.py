"""Sweeps of step times give what ``costmodel step`` gives, point by point."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.questions.step import ask_step
from costmodel.questions.sweep import ask_sweep
from costmodel.sweep.step_arrays import Kept

#: Dense, experts, latents, windows, attention chunks, sparse latents, states; alone and in an engine.
INSTANCES: tuple[dict[str, Any], ...] = (
    {"model": "Llama-3.1-8B", "hardware": "h100-sxm"},
    {"model": "Llama-3.1-8B", "hardware": "a100-sxm-80gb", "tp": 2, "stack": "splitwise-2023"},
    {"model": "Llama-3.1-70B", "hardware": "h100-sxm", "tp": 4, "dtype": "fp8", "stack": "vllm-2026"},
    {"model": "Mixtral-8x7B-v0.1", "hardware": "a100-sxm-80gb", "tp": 2},
    {
        "model": "Qwen3-30B-A3B",
        "hardware": "h100-sxm",
        "ep": 2,
        "tp": 2,
        "expert_skew": 0.3,
        "stack": "vllm-2026",
    },
    {"model": "deepseek-ai/DeepSeek-V2-Lite", "hardware": "a100-sxm-80gb"},
    {"model": "deepseek-ai/DeepSeek-V3", "hardware": "h200-sxm", "tp": 8, "stack": "sglang-0.5.9"},
    {"model": "deepseek-ai/DeepSeek-V3.2", "hardware": "h200-sxm", "tp": 8},
    {"model": "openai/gpt-oss-20b", "hardware": "h100-sxm"},
    {"model": "gemma-3-12b-it", "hardware": "h100-sxm", "stack": "vllm-2026"},
    {"model": "Llama-4-Scout-17B-16E-Instruct", "hardware": "h100-sxm", "tp": 4},
    {"model": "Qwen3-Next-80B-A3B-Instruct", "hardware": "h100-sxm", "tp": 2, "stack": "vllm-2026"},
    {"model": "Nemotron-H-8B-Base-8K", "hardware": "h100-sxm"},
)
LONG = (1, 2, 127, 128, 129, 4096, 8191, 8192, 8193, 100_000)


def scalar(instance: dict[str, Any], phase: str, row: dict[str, int]) -> tuple[float, float]:
    """The figures of ``costmodel step``."""
    given: dict[str, Any] = {**instance, **row}
    given |= {"chunk": (given["chunk"],)} if "chunk" in given else {}
    found = ask_step(given.pop("model"), given.pop("hardware"), phase, **given)
    return found.time_s, found.bound_s


def shapes(phase: str, draw: random.Random) -> dict[str, list[int]]:
    """A small grid of random lengths, ends of kernels' regimes among them."""

    def some(least: int, most: int) -> list[int]:
        return sorted({draw.randint(least, most), draw.choice([n for n in LONG if least <= n <= most])})

    if phase == "prefill":
        return {"isl": [n + 1 + max(LONG) for n in some(1, 9000)], "cached": [0, *some(1, 100_000)]}
    if phase == "decode":
        return {"batch": some(1, 300), "context": some(1, 100_000)}
    return {
        "cached": [0, *some(1, 20_000)],
        "chunk": some(1, 9000),
        "batch": some(1, 300),
        "context": some(1, 9000),
    }


@pytest.mark.parametrize("phase", ("prefill", "decode", "mixed"))
@pytest.mark.parametrize(
    "instance", INSTANCES, ids=lambda i: f"{i['model'].split('/')[-1]}-{i.get('stack', '')}"
)
def test_every_point_is_that_of_the_step(instance: dict[str, Any], phase: str) -> None:
    draw = random.Random(f"{instance} {phase}")
    axes = shapes(phase, draw)
    sweep = ask_sweep("step", {**instance, "phase": phase, **axes})
    places = draw.sample(range(sweep.points), min(6, sweep.points))
    blocks = list(sweep)
    assert [len(block["time_s"]) for block in blocks] == [sweep.points]
    for place in places:
        row = {name: int(blocks[0][name][place]) for name in axes}
        time, bound = scalar(instance, phase, row)
        assert blocks[0]["time_s"][place] == pytest.approx(time, rel=1e-9)
        assert blocks[0]["bound_s"][place] == pytest.approx(bound, rel=1e-9)
    assert not blocks[0]["refused"].any() and set(blocks[0]["reason"]) == {""}
    assert (blocks[0]["time_s"] >= blocks[0]["bound_s"]).all()


def test_a_chunk_that_ends_its_prompt_samples_a_token() -> None:
    axes = {"isl": (1000, 1001), "cached": 500, "chunk": 500, "batch": 4, "context": 100}
    instance = {"model": "Llama-3.1-8B", "hardware": "h100-sxm"}
    (block,) = ask_sweep("step", {**instance, "phase": "mixed", **axes})
    ends, goes_on = (scalar(instance, "mixed", {**axes, "isl": isl})[0] for isl in (1000, 1001))  # type: ignore[dict-item]
    assert ends > goes_on
    assert block["time_s"].tolist() == pytest.approx([ends, goes_on], rel=1e-9)


def test_what_has_no_answer_is_flagged_with_its_sentence() -> None:
    axes = {"model": "Llama-3.1-8B", "hardware": "h100-sxm,a100-sxm-80gb", "tp": "1,3", "dtype": "bf16,fp8"}
    (block,) = ask_sweep("step", {**axes, "phase": "prefill", "isl": "100,200", "cached": "0,100"})
    assert len(block["time_s"]) == 2 * 2 * 2 * 2 * 2
    rows = [dict(zip(block, row)) for row in zip(*(column.tolist() for column in block.values()))]
    for row in rows:
        if row["tp"] == 3:
            assert "3" in row["reason"] and "heads" in row["reason"]
        elif row["dtype"] == "fp8" and row["hardware"] == "a100-sxm-80gb":
            assert "fp8" in row["reason"]
        elif row["cached"] >= row["isl"]:
            assert row["reason"] == "--cached leaves nothing of --isl, which includes it"
        else:
            assert not row["reason"] and row["time_s"] > row["bound_s"] > 0
        assert row["refused"] == bool(row["reason"])
        assert row["refused"] == (row["time_s"] != row["time_s"])
    # 8 of 16 have tp 3; of those left, fp8 on an A100 are 4, and 1 in 4 of the 12 others has 100 cached of 100.
    assert sum(row["refused"] for row in rows) == 16 + 4 + 3


@pytest.mark.parametrize(
    "axes, said",
    (
        ({"phase": "decode"}, "a decode step needs --context"),
        ({"phase": "decode", "context": 1, "isl": 5}, "--isl means nothing in a decode step"),
        ({"phase": "mixed", "context": 1}, "a mixed step needs --chunk"),
        ({"phase": "decoding", "context": 1}, "did you mean 'decode'?"),
        ({"context": 1}, "a sweep of steps needs --phase"),
    ),
)
def test_a_phase_names_what_it_needs(axes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="(?s)" + said.replace("?", r"\?")):
        ask_sweep("step", {"model": "Llama-3.1-8B", "hardware": "h100-sxm", **axes})


def test_kept_values_are_those_of_the_function() -> None:
    import numpy as np

    kept = Kept(lambda n: n * n + 1.0)
    for numbers in ([0, 3, 2], [7, 7, 0], [2**18 + 5, 1, 2**20], [2**18 - 1, 4]):
        assert kept(np.array(numbers)).tolist() == [n * n + 1.0 if n else 0.0 for n in numbers]


def test_a_number_without_a_value_leaves_the_others_theirs() -> None:
    import numpy as np

    def function(n: Any) -> Any:
        if n < 4:
            raise InputError("none below 4")
        return n * 2.0

    kept = Kept(function)
    assert kept(np.array([4, 9, 9, 5])).tolist() == [8.0, 18.0, 18.0, 10.0]
    with pytest.raises(InputError, match="none below 4"):
        kept(np.array([9, 3]))


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    packaged = Path(__file__).parent.parent / "models" / "meta-llama--Llama-3.1-8B.json"
    config = json.loads(packaged.read_text())
    own = tmp_path / "config.json"
    times = []
    for layers in (32, 16):
        own.write_text(json.dumps({**config, "num_hidden_layers": layers}))
        os.utime(own, ns=(layers, layers))
        axes = {"model": str(own), "hardware": "h100-sxm", "phase": "decode", "context": 512}
        (block,) = ask_sweep("step", axes)
        times.append(block["time_s"][0])
        assert times[-1] == pytest.approx(
            ask_step(str(own), "h100-sxm", "decode", context=512).time_s, rel=1e-9
        )
    assert times[1] < 0.6 * times[0]
