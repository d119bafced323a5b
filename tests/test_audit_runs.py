"""Runs of a record: which figures belong together."""

from __future__ import annotations

from audit_records import case_of, row


def names(text: str) -> list[list[str]]:
    """The figures of each run, by name."""
    return [[figure.name for figure in run.figures] for run in case_of(text).runs]


def test_a_figure_joins_the_runs_that_agree_with_it() -> None:
    text = row("kv_bytes_per_token", 1, "B", id="each") + "".join(
        row("ttft", n, "s", concurrency=n, id=f"ttft-{n}") for n in (1, 8)
    )
    assert names(text) == [["each", "ttft-1"], ["each", "ttft-8"]]


def test_the_same_metric_without_a_condition_is_another_run() -> None:
    text = row("ttft", 4.9, "s", id="whole") + row("ttft", 100, "ms", cached_share=0.9, id="cached")
    runs = case_of(text + row("weight_bytes", 1, "GB", id="weights")).runs
    assert [[figure.name for figure in run.figures] for run in runs] == [
        ["cached", "weights"],
        ["whole", "weights"],
    ]
    assert [run.number("cached_share") for run in runs] == [0.9, None]
    other = text.replace("'cached'", "'cached'\nstatistic = 'p99'")  # another statistic of the same run
    assert names(other) == [["whole", "cached"]]
