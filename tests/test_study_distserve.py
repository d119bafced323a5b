"""docs/studies/distserve.py against the figures that DistServe published (OSDI 2024, arXiv 2401.09670)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import distserve
import distserve_figures as figures
import distserve_parallel as parallel
import distserve_runs as runs
import distserve_search as search
import pytest

from costmodel import Chunk, Slo

PAGE = Path(distserve.__file__).with_suffix(".md").read_text()
#: Figure 1: requests/s a GPU of OPT-13B, prompts of 512 and outputs of 64 tokens, 90 % attainment, A100-80G.
FIGURE_1 = {"colocated": 1.6, "prefill only": 5.6, "decode only": 10.0, "2P1D": 3.3}
GAIN = 2.1


def reaches(name: str, share: float, factor: float = 1.0) -> bool:
    """Whether a system of figure 1 attains a share of its published rate."""
    system = runs.FIGURE[name]
    return runs.attains(system, runs.Engine(factor=factor), share * FIGURE_1[name] * system.gpus)


def row(name: str, section: str) -> list[str]:
    """The cells of a row of the page, of the section whose heading starts with a text."""
    part = next(part for part in PAGE.split("\n## ") if part.startswith(section))
    line = next(line for line in part.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_study_has_the_published_figures() -> None:
    assert figures.FIGURE_1 == FIGURE_1
    assert figures.GAIN == GAIN


def test_step_times_are_those_of_the_published_coefficients() -> None:
    # LLMServe/DistServe@82831f16, profiler-a100-80g.vllm.json, opt-13b, TP1; in ms.
    steps = runs.PublishedSteps(runs.deployment(runs.FIGURE["colocated"]).prefill, runs.Engine())
    prompt = 22.052204789310185 + 0.14050923870128956 * 512 + 8.076584822611088e-06 * 512**2
    small = 23.475041008414784 + 0.000592934466077393 * 50_000 + 0.060726861260369455 * 94
    large = 20.206356173691958 + 0.0004907727036234946 * 50_000 + 0.1200031385587413 * 95
    assert 1e3 * steps.prefill(512) == pytest.approx(prompt, rel=1e-5)
    assert 1e3 * steps.step([Chunk(512, 0), Chunk(512, 0)], 2, 0, 0) == pytest.approx(
        2 * prompt - 22.0522, rel=1e-5
    )
    assert 1e3 * steps.decode(94, 50_000) == pytest.approx(small, rel=1e-5)
    assert 1e3 * steps.decode(95, 50_000) == pytest.approx(large, rel=1e-5)
    one_by_one = sum(steps.decode(95, 50_000 + 95 * k) for k in range(10))
    assert steps.run(95, 50_000, 10) == pytest.approx(one_by_one)
    count, end = steps.until(95, 50_000, 100, one_by_one * (1 - 1e-9))
    assert count == 10 and end == pytest.approx(one_by_one)


def test_the_gain_is_right_without_a_factor() -> None:
    def goodput(name: str) -> float:
        return runs.goodput(runs.FIGURE[name], runs.Engine(), 1, 1000)

    assert goodput("2P1D") / goodput("colocated") == pytest.approx(GAIN, rel=0.1)
    assert float(row("2P1D over colocated", "Figure 1")[2]) == pytest.approx(GAIN, rel=0.1)


@pytest.mark.parametrize("name", FIGURE_1)
def test_rates_are_a_third_to_a_half_high_without_a_factor(name: str) -> None:
    assert reaches(name, 1.25)
    assert not reaches(name, 1.5)


@pytest.mark.parametrize("name", FIGURE_1)
def test_one_factor_brings_each_rate_within_15_per_cent(name: str) -> None:
    factor = float(re.findall(r"vLLM x (1\.\d\d)", PAGE)[0])
    assert reaches(name, 0.85, factor=factor)
    assert not reaches(name, 1.15, factor=factor)
    assert float(row(name, "Figure 1")[5]) == pytest.approx(1.0, abs=0.15)


def test_longer_steps_are_a_faster_clock_with_tighter_objectives() -> None:
    system = runs.FIGURE["colocated"]
    tight = tuple(
        replace(slo, **{k: v / 1.1 for k in ("ttft_s", "tpot_s") if (v := getattr(slo, k))})
        for slo in system.slos
    )

    def goodput(slos: tuple[Slo, ...], factor: float) -> float:
        return runs.goodput(replace(system, slos=slos), runs.Engine(factor=factor), 1, 500)

    assert goodput(system.slos, 1.1) == pytest.approx(goodput(tight, 1.0) / 1.1, rel=0.006)


def test_ten_per_cent_on_a_step_moves_goodput_by_20_to_40_per_cent_where_tpot_binds() -> None:
    for name in ("colocated", "decode only", "2P1D"):
        shorter, longer = (float(cell.strip("%")) / 100 for cell in row(name, "Ten per cent")[5:7])
        assert 0.2 < -longer < shorter < 0.4


def test_a_log_of_vllm_is_met_without_a_factor() -> None:
    # LLMServe/DistServe@20a1633e, opt-13b-sharegpt/vllm-100-1.exp: avg_ttft_ms, avg_tpot_ms.
    ttft, tpot = distserve.replayed_log(1)
    assert ttft == pytest.approx(161.2, rel=0.15)
    assert tpot == pytest.approx(34.25, rel=0.05)
    assert row("vLLM, 1 /s", "Against logs")[1:] == ["161.2", "34.2", f"{ttft:.1f}", f"{tpot:.1f}"]


def test_the_example_of_the_placement_search_is_found() -> None:
    # simdistserve/README.md: four GPUs, TTFT 0.2 s, TPOT 0.1 s: prefill TP2, decode TP1, 1.56 requests/s a GPU.
    attains, engine = runs.attains, runs.Engine("distserve")
    found = [tp for tp in search.PAIRS if attains(search.pair(tp, 0.2), engine, 1.56 * sum(tp))]
    assert found == [(2, 1)]
    assert not attains(search.pair((2, 1), 0.2), engine, 1.25 * 1.56 * 3)


def test_one_decode_gpu_is_held_back_by_kv() -> None:
    # Table 3 has decode TP1, which falls behind TP4 where KV ends.
    def attains(tp: int, rate: float, **changes: bool) -> bool:
        system = search.decoding(tp, **changes)
        return runs.attains(system, runs.Engine("distserve"), rate * tp, 1, 1500)

    assert attains(4, 6.0) and not attains(1, 6.0)
    assert attains(1, 6.7, kv=False)


def test_rates_within_one_per_cent_of_each_other_are_level() -> None:
    assert search.level({1: 7.04, 2: 6.75, 4: 7.01}) == "TP1 = TP4"
    assert search.level({1: 5.37, 2: 6.10, 4: 6.64}) == "TP4"


def test_the_gain_by_other_step_times_is_that_of_the_goodputs_shown() -> None:
    cells = next(line for line in PAGE.splitlines() if line.startswith("goodput/GPU"))
    whole, _, split, _ = (float(cell) for cell in re.findall(r"([\d.]+) \(", cells.split(")", 1)[1]))
    assert f"{split:.2f} / {whole:.2f} = {split / whole:.2f}x" in PAGE
    shown = PAGE.split("costmodel recommend")[1].split("```")[0].splitlines()
    assert "..." in shown and shown[1].startswith("DISAGGREGATE")  # cuts are marked, the verdict is not cut


def test_tensor_parallel_prefill_wins_at_low_rates_and_stages_at_high_ones() -> None:
    alone, speedup = parallel.service("distserve")
    assert 1 < speedup < 2
    for k in (speedup, 1.5, 1.9):
        meet = parallel.crossover(k)
        for load, tensor in ((0.95 * meet, True), (1.05 * meet, False)):
            intra = 1 / k + load / (2 * k * (k - load))  # equations 3 and 2, with a service of 1
            inter = 1 + load / (4 * (2 - load))
            assert (intra < inter) is tensor
    found = 1e3 * parallel.replayed_ttft(1, 0.4 / alone / 2, 2000)
    assert found == pytest.approx(float(row("0.4", "Tensor or pipeline")[2]), rel=0.04)


def test_published_capacities_are_memory_less_one_copy_of_the_weights() -> None:
    # LLMServe/DistServe@82831f16, max_num_tokens.csv, opt-13b, pp 1.
    tokens = {1: 66_144, 2: 163_008, 4: 356_736}
    assert tokens == figures.KV_TOKENS
    assert 3 * tokens[2] - 2 * tokens[1] == tokens[4]
    assert distserve.own_pool(0.9, 1) == pytest.approx(tokens[1], rel=0.1)
    assert distserve.capacities() in PAGE


def test_the_page_says_what_the_headline_figures_compare() -> None:
    assert PAGE.startswith(distserve.QUESTION) and distserve.INTRO in PAGE
    assert PAGE.endswith(distserve.HEADLINES)
    most, tightest = row("**7.4x** (1.6x-7.4x)", "What the headline"), row("**12.6x**", "What the headline")
    assert most[1] == "**DeepSpeed-MII**" and "ShareGPT" in most[2] and most[3] == "**rate**"
    assert tightest[1:] == ["**vLLM**", "**LongBench, OPT-66B**", "**tighter objectives**"]
