"""What stands in the files of a sweep: the same whatever its blocks; nothing, and not a word, for what is not there."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from costmodel import ask_sweep
from costmodel.sweep.recommendations import FIGURES, TEXTS

#: 32 query heads, 8 KV heads: TP3 divides neither, so that every second combination is refused.
VERDICTS: dict[str, object] = {
    "model": "Llama-3.1-8B", "hardware": "h100-sxm", "tp": (1, 3), "topology": "1P1D", "isl": "4096", "osl": 64,
    "rate": (1, 6, 500), "cached": (0, 4096),
}  # fmt: skip
BLOCKS = (1, 2, 5, 100)


def test_texts_are_the_figures_that_are_no_numbers() -> None:
    (block,) = ask_sweep("recommend", VERDICTS)
    assert {name for name in FIGURES if block[name].dtype == object} == set(TEXTS)


@pytest.mark.parametrize("chunk_points", BLOCKS)
def test_a_csv_has_empty_cells_where_points_are_refused(chunk_points: int, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.csv"
    ask_sweep("recommend", VERDICTS, chunk_points=chunk_points).to_csv(path)
    assert "nan" not in path.read_text() and "None" not in path.read_text()
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 12
    for row in rows:
        # TP3 divides nothing, 4,096 cached leave nothing of 4,096, and 500/s are beyond any strategy's capacity.
        refused = row["tp"] == "3" or row["cached"] == "4096" or row["rate_per_s"] == "500.0"
        assert row["refused"] == str(int(refused)) and bool(row["reason"]) == refused
        assert bool(row["best"]) == bool(row["runner_up"]) == bool(row["margin"]) == (not refused)
        if refused and row["rate_per_s"] != "500.0":
            assert not any(row[name] for name in FIGURES)


@pytest.mark.parametrize("chunk_points", BLOCKS)
def test_parquet_has_nulls_where_points_are_refused(chunk_points: int, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "verdicts.parquet"
    ask_sweep("recommend", VERDICTS, chunk_points=chunk_points).to_parquet(path)
    table = parquet.read_table(path)
    assert {name for name in FIGURES if str(table.schema.field(name).type) == "string"} == set(TEXTS)
    rows: list[dict[str, Any]] = table.to_pylist()
    assert len(rows) == 12
    for row in rows:
        refused = row["tp"] == 3 or row["cached"] == 4096 or row["rate_per_s"] == 500
        assert row["refused"] == refused == (row["best"] is None) == (row["runner_up"] is None)
        if row["tp"] == 3:
            assert all(row[name] is None for name in FIGURES)


@pytest.mark.parametrize("chunk_points", BLOCKS)
def test_a_data_frame_has_nothing_where_points_are_refused(chunk_points: int) -> None:
    pytest.importorskip("pandas")
    frame = ask_sweep("recommend", VERDICTS, chunk_points=chunk_points).to_dataframe()
    for name in TEXTS:
        assert "nan" not in frame[name].cat.categories and "" not in frame[name].cat.categories
    assert (frame["best"].isna() == frame["refused"]).all()


def test_a_summary_counts_no_missing_text() -> None:
    for chunk_points in BLOCKS:
        counts = ask_sweep("recommend", VERDICTS, chunk_points=chunk_points).summary().counts
        assert sum(counts["best"].values()) == 2 and "nan" not in counts["best"]
