"""Two results against each other: which conditions decide, what may differ by intent, and what no ratio is told of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.audit.match import compare
from costmodel.audit.runs import Run
from costmodel.errors import InputError
from costmodel.records import Figure, Record, Stated

STATED: dict[str, Stated] = {
    "model": "meta-llama/Llama-3.1-8B",
    "hardware": "H100 SXM",
    "concurrency": 8,
    "input_tokens": 1024,
    "output_tokens": 128,
    "engine": "vLLM",
    "engine_version": "0.19.0",
}


def figure(metric: str, value: float, statistic: str | None = "mean", **conditions: str) -> Figure:
    return Figure(
        f"{metric} {statistic}", metric, value, "second", f"{value} s", "s", statistic, None, conditions
    )


A = Run("a", STATED, (figure("ttft", 0.2), figure("tpot", 0.01, "p99")))
B = Run("b", {**STATED, "hardware": "h100-sxm"}, (figure("ttft", 0.3), figure("tpot", 0.02, "p95")))


def test_the_same_conditions_compare_and_ratios_are_of_one_statistic() -> None:
    found = compare(A, B)
    assert found.comparable and not found.mismatching
    assert [(r.metric, r.statistic) for r in found.ratios] == [("ttft", "mean")]
    assert found.ratios[0].ratio == pytest.approx(1.5)  # 0.3 / 0.2


def test_a_mismatch_names_both_values_and_no_ratio_is_told() -> None:
    found = compare(A, replace(B, conditions={**STATED, "concurrency": 16}))
    assert not found.comparable
    assert [(c.name, c.a, c.b) for c in found.mismatching] == [("concurrency", 8, 16)]
    assert found.ratios[0].ratio is None and found.ratios[0].reason


def test_what_differs_by_intent_does_not_count() -> None:
    found = compare(A, replace(B, conditions={**STATED, "concurrency": 16}), varying=("concurrency",))
    assert found.comparable
    assert [(c.name, c.a, c.b) for c in found.varying] == [("concurrency", 8, 16)]
    assert found.ratios[0].ratio == pytest.approx(1.5)


def test_what_is_to_vary_must_be_stated_by_both() -> None:
    found = compare(A, replace(B, conditions={**STATED, "strategy": "disaggregated"}), varying=("strategy",))
    assert not found.comparable and "strategy" in found.reasons[0]
    assert [c.said for c in found.varying] == ["strategy (not stated and disaggregated)"]
    assert not compare(A, B, varying=("strategy",)).comparable


def test_what_is_to_vary_and_does_not_is_said() -> None:
    found = compare(A, B, varying=("concurrency",))
    assert found.comparable and not found.varying
    assert found.caveats == ("concurrency, which is to vary, is 8 in both",)


def test_results_are_named_by_their_files() -> None:
    assert (compare(A, B).a, compare(A, B).b) == ("a", "b")
    records = [
        Record("r.json", f"{folder}/r.json", "results", A.figures, STATED) for folder in ("one", "two")
    ]
    found = compare(*records)
    assert (found.a, found.b) == ("one/r.json", "two/r.json")
    twins = compare(A, replace(A, conditions={**STATED, "concurrency": 16}), varying=("concurrency",))
    assert "concurrency 8" in twins.a and "concurrency 16" in twins.b


def lengths(mean: float, words: str | None = None) -> Run:
    """A run whose prompts have a mean that is a figure, and lengths told in words."""
    stated: dict[str, Stated] = {key: value for key, value in STATED.items() if key != "input_tokens"}
    told = Figure("input_lens", "input_tokens", mean, "token", f"{mean}", "tokens", "mean")
    return Run("c", {**stated, "input_length": words or f"mean {mean}"}, (*A.figures, told))


def test_lengths_are_compared_as_numbers_and_are_no_results() -> None:
    found = compare(lengths(980.0, "17 to 5,000 tokens, mean 980"), lengths(1000.0))  # 2 % apart
    assert found.comparable and "input_tokens" not in [r.metric for r in found.ratios]
    far = compare(lengths(980.0), lengths(1020.0))  # 4 %
    assert far.reasons == ("input_tokens differs: 980 against 1,020",)


def test_one_length_against_a_mean_is_said() -> None:
    same = Figure("input_lens", "input_tokens", 1024.0, "token", "1024", "tokens", "mean")
    fixed = replace(A, figures=(*A.figures, same))
    found = compare(fixed, lengths(1024.0))
    assert found.comparable and "how they vary may differ" in found.caveats[0]
    assert not compare(fixed, fixed).caveats and not compare(lengths(1024.0), lengths(1024.0)).caveats


def test_how_much_was_measured_does_not_block_but_where_it_is_the_load() -> None:
    def of(requests: int, **more: str) -> Run:
        stated: dict[str, Stated] = {k: v for k, v in STATED.items() if more == {} or k != "concurrency"}
        return Run("d", {**stated, "requests": requests, "seed": str(requests), **more}, A.figures)

    assert compare(of(100), of(400)).comparable
    at_once = {"arrival_process": "all at once"}
    assert compare(of(100, **at_once), of(400, **at_once)).reasons == ("burst differs: 100 against 400",)
    assert compare(of(100, **at_once), of(100, **at_once)).comparable


def test_what_the_user_states_does_not_hide_what_results_state() -> None:
    found = compare(A, replace(B, conditions={**STATED, "concurrency": 16}), given={"concurrency": 8})
    assert not found.comparable


def rate(value: float) -> Figure:
    return Figure("request_throughput", "request_throughput", value, "1/second", f"{value}", "req/s")


@pytest.mark.parametrize(
    ("factors", "of_times", "of_rates"),
    [
        ((0.9, 1.1), "slower", "faster"),  # 1.35 to 1.65
        ((0.5, 1.1), "within noise", "within noise"),  # 0.75 to 1.65
        ((0.5, 0.6), "faster", "slower"),  # 0.75 to 0.9
    ],
)
def test_a_ratio_beyond_its_interval_is_a_verdict(
    factors: tuple[float, float], of_times: str, of_rates: str
) -> None:
    runs = [
        Run(name, STATED, (figure("ttft", t), rate(r))) for name, t, r in (("a", 2.0, 2.0), ("b", 3.0, 3.0))
    ]
    found = compare(*runs, intervals=lambda _: factors)
    assert [r.verdict for r in found.ratios] == [of_times, of_rates]
    assert found.ratios[0].low == pytest.approx(1.5 * factors[0])
    none = compare(*runs, intervals=lambda each: f"{each.metric} is not known")
    assert none.ratios[0].verdict is None and none.ratios[0].interval_reason == "ttft is not known"
    assert "single requests" in str(compare(*runs).ratios[0].interval_reason)


@pytest.mark.parametrize(
    ("missing", "what"),
    [
        ("hardware", "hardware"),
        ("engine_version", "engine version"),
        ("concurrency", "load"),
        ("input_tokens", "input length"),
    ],
)
def test_what_one_alone_states_blocks_and_what_neither_states_is_a_caveat(missing: str, what: str) -> None:
    less = {key: value for key, value in STATED.items() if key != missing}
    one, neither = (
        compare(A, replace(B, conditions=less)),
        compare(*(replace(r, conditions=less) for r in (A, B))),
    )
    assert not one.comparable and one.reasons == (f"{what} is not stated by the second",)
    assert missing in [c.name for c in one.absent] and not one.unstated
    assert neither.comparable and neither.unstated == (what,) and neither.ratios[0].ratio is not None
    assert neither.caveats == (f"{what} is stated by neither: they compare only if it was the same",)


def test_what_the_user_states_of_both_fills_the_gap() -> None:
    less = {key: value for key, value in STATED.items() if key != "hardware"}
    runs = [replace(r, conditions=less) for r in (A, B)]
    assert compare(*runs, given={"hardware": "h100-sxm"}).comparable


def test_definitions_of_a_figure_must_agree() -> None:
    ours = replace(A, figures=(figure("ttft", 0.2, ttft_from="arrival"),))
    found = compare(ours, replace(B, figures=(figure("ttft", 0.3, ttft_from="scheduling"),)))
    assert found.comparable and found.ratios[0].ratio is None
    assert "ttft_from" in str(found.ratios[0].reason)


def test_names_that_are_no_condition_and_records_of_several_runs_are_refused() -> None:
    with pytest.raises(InputError, match="no condition"):
        compare(A, B, varying=("colour",))
    several = [replace(figure("ttft", 0.2), conditions={"concurrency": n}) for n in (1, 2)]
    with pytest.raises(InputError, match="2 runs"):
        compare(Record("r", "r.toml", "toml", tuple(several)), B)
