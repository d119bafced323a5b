"""The regime maps agree in sign with what is published, and the page holds what its script computes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import regimes
from common import place
from regimes_runs import LENGTH, STEP, Bench, Study
from regimes_ways import LARGE, POOLED, SMALL, Cell, splits

from costmodel.inputs.workload import Slo

PAGE = Path(regimes.__file__).with_suffix(".md").read_text()
MODELS = ("8B", "70B")

#: TaiChi, arXiv 2508.01989, abstract: aggregation under tight TTFT and relaxed TPOT, disaggregation under strict
#: TPOT and relaxed TTFT. What is tight for each model: (TTFT, TPOT) of a corner, as rows and columns of map 3.
POOLED_WINS = {"8B": ("0.3 s", "200 ms"), "70B": ("0.5 s", "200 ms")}
SPLIT_WINS = {"8B": ("5 s", "15 ms"), "70B": ("5 s", "20 ms")}


def table(text: str, after: str) -> dict[str, dict[str, str]]:
    """The first table of a text that follows these words: row -> column -> cell."""
    lines = text[text.index(after) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]
    return {row[0]: dict(zip(cells[0][1:], row[1:])) for row in cells[2:]}


def grid(model: str, number: int) -> dict[str, dict[str, str]]:
    """A map of a model."""
    return table(PAGE[PAGE.index(f"## Llama-3.1-{model}") :], f"Map {number},")


def gain(cell: str) -> float:
    """The split's goodput over the pooled one's, as a cell says it; not a number where neither attains."""
    if cell in "-=":
        return math.nan if cell == "-" else 1.0
    winner, size = cell.split()
    ratio = math.inf if size == "only" else float(size)
    return ratio if winner == "D" else 1 / ratio


@pytest.mark.parametrize("model", MODELS)
def test_pooling_wins_one_corner_and_splitting_the_other(model: str) -> None:
    cells = grid(model, 3)
    (ttft, tpot), (late, strict) = POOLED_WINS[model], SPLIT_WINS[model]
    assert gain(cells[ttft][tpot]) < 0.97 and gain(cells[late][strict]) > 1.03


@pytest.mark.parametrize("model", MODELS)
def test_a_looser_ttft_never_favours_pooling(model: str) -> None:
    rows = list(grid(model, 3).values())
    for column in rows[0]:
        gains = [gain(row[column]) for row in rows if row[column] != "-"]
        assert gains == sorted(gains)


def test_the_larger_model_gains_more() -> None:
    """Beyond the Buzz, arXiv 2506.05508, abstract: most effective for larger models."""
    for row, cells in grid("70B", 2).items():
        for column in ("20 ms", "30 ms"):
            # Not at 256 tokens, where prompts are the least part of both.
            assert gain(cells[column]) > gain(grid("8B", 2)[row][column]) or row == "256"
    scaled = table(PAGE, "Goodput at SLOs in proportion")
    assert all(gain(scaled["70B"][column]) > gain(cell) for column, cell in scaled["8B"].items())


def test_the_gain_grows_with_the_prefill_share_where_the_tpot_slo_binds() -> None:
    """The same abstract: most effective for prefill-heavy traffic."""
    for model, column in (("8B", "10 ms"), ("70B", "20 ms"), ("70B", "30 ms")):
        rows = grid(model, 4).values()
        shares, gains = (
            [float(row["prefill"].strip(" %")) for row in rows],
            [gain(row[column]) for row in rows],
        )
        assert shares == sorted(shares, reverse=True) and gains == sorted(gains, reverse=True)
        assert gains[0] > 1.5 * gains[-1]
    by_prompt = [gain(row["20 ms"]) for row in grid("70B", 2).values()]
    assert by_prompt == sorted(by_prompt)
    assert all(
        gain(row["200 ms"]) < 1
        for model in MODELS
        for number in (2, 4)
        for row in grid(model, number).values()
    )


def test_a_split_has_no_more_capacity_and_finer_splits_have_more() -> None:
    """vLLM documentation: no more throughput. Beyond the Buzz: rate matching is critical. Computed again."""
    study = Study()
    assert regimes.capacities(study) in PAGE
    four = [study.bench(SMALL, isl).capacity_gain() for isl in regimes.LENGTHS]
    sixteen = [study.sixteen(isl).capacity_gain() for isl in regimes.LENGTHS]
    large = [study.bench(LARGE, isl).capacity_gain() for isl in regimes.LENGTHS]
    assert max(four + large + sixteen) <= 1.0
    assert all(fine >= coarse for fine, coarse in zip(sixteen, four)) and sum(sixteen) > 1.08 * sum(four)


def test_deflection_by_kairos_never_beats_the_better_pure_way() -> None:
    for row in table(PAGE, "Deflection (F").values():
        pure = max(1.0, gain(row["D against pooled"]))
        cell = row["F against pooled"]
        assert gain(cell.replace("F", "D")) <= pure


def attaining(slo: Slo, rate: float) -> set[str]:
    """Letters of the ways of the 70B that attain SLOs at a rate, replayed again."""
    bench = Bench(LARGE, LENGTH)
    index, ways = place(rate, STEP), POOLED + splits(4)
    stable = [way for way in ways if index <= bench.capacity(way)]
    return {way.letter for way in stable if bench.play(way, index, 1, slo).attains(slo)}


def test_the_corners_of_the_large_model_replayed_again() -> None:
    assert attaining(Slo(5.0, 0.02), 4.5) == {"D"}
    assert "D" not in attaining(Slo(0.5, 0.2), 9.0) != set()


def test_a_cell_of_mean_delay_computed_again() -> None:
    bench = Bench(LARGE, LENGTH)
    assert str(bench.relief(0.4)) == grid("70B", 1)["4,096"]["0.4"]


@pytest.mark.parametrize("stack", ("--stack vllm-2026", "drawn lengths"))
def test_corners_keep_their_signs_under_other_choices(stack: str) -> None:
    rows = table(PAGE, "Other choices:")
    for model in MODELS:
        row = rows[f"{model}, {stack}"]
        assert gain(row[SPLIT_WINS[model][1]]) > 1.03 and gain(row["200 ms"]) < 0.97


def test_cells_say_who_wins() -> None:
    pooled, split = POOLED[0], splits(4)[0]
    said = [str(Cell(split, pooled, pairs)) for pairs in (
        ((3.0, 2.0), (3.0, 2.0)), ((2.0, 3.0), (2.0, 3.0)), ((1.0, 0.9), (0.8, 0.9)), ((1.01, 1.0),), ((1.0, 0.0),),
        ((0.0, 1.0),), ((0.0, 0.0),),
    )]  # fmt: skip
    assert said == ["D 1.50", "O 1.50", "=", "=", "D only", "O only", "-"]


def test_the_page_begins_as_the_script_says_and_shows_the_command_line() -> None:
    assert PAGE.startswith(regimes.INTRO + "\n## In short\n")
    assert regimes.METHOD in PAGE and regimes.CLI.strip() in PAGE and re.search(r"\d%", PAGE) is None


def test_what_is_called_decided_is_beyond_the_band() -> None:
    """The corners that the reading rests on, and the one that it calls undecided."""
    small, large = grid("8B", 3), grid("70B", 3)
    assert gain(large["5 s"]["20 ms"]) > regimes.BAND
    assert max(gain(small["0.3 s"]["200 ms"]), gain(large["0.5 s"]["200 ms"])) < 1 / regimes.BAND
    assert gain(small["5 s"]["15 ms"]) < regimes.BAND


def test_where_the_scaled_slos_have_unlike_signs_is_said() -> None:
    scaled = table(PAGE, "Goodput at SLOs in proportion")
    unlike = [
        f"{factor} times: {cell}, {scaled['70B'][factor]}"
        for factor, cell in scaled["8B"].items()
        if (gain(cell) - 1) * (gain(scaled["70B"][factor]) - 1) < 0
    ]
    assert [f"(not at {each}," in PAGE for each in unlike] == [True]
