"""Sweeps as a whole: blocks, executors, files, memory, what is told."""

from __future__ import annotations

import csv
import gzip
import shutil
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel import ask_sweep
from costmodel.errors import InputError
from costmodel.sweep.blocks import AHEAD
from costmodel.sweep.table_text import lines
from costmodel.sweep.tally import MOST_COUNTED, MOST_TOLD, Tally, told
from costmodel.sweep.writers import check_memory

STEPS: dict[str, object] = {
    "model": "Llama-3.1-8B",
    "hardware": "h100-sxm,a100-sxm-80gb",
    "tp": "1,3",
    "phase": "decode",
    "batch": "1:9",
    "context": "64:1024*2",
}
POINTS = 2 * 2 * 9 * 5
VERDICTS: dict[str, object] = {
    "model": "Llama-3.1-8B", "hardware": "h100-sxm", "link": "ib-hdr", "topology": "1P1D", "isl": "512,4096", "osl": 64,
    "rate": "1:13:4",
}  # fmt: skip


def rows(axes: dict[str, object], question: str = "step", **settings: Any) -> list[dict[str, Any]]:
    found = []
    for block in ask_sweep(question, axes, **settings):
        columns = [column.tolist() for column in block.values()]
        found += [dict(zip(block, (None if v != v else v for v in row))) for row in zip(*columns)]
    return found


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    return rows(STEPS)


def test_points_come_in_order_the_last_axis_fastest(expected: list[dict[str, Any]]) -> None:
    assert len(expected) == POINTS
    assert [(row["hardware"], row["tp"]) for row in expected[:: POINTS // 4]] == [
        ("h100-sxm", 1), ("h100-sxm", 3), ("a100-sxm-80gb", 1), ("a100-sxm-80gb", 3),
    ]  # fmt: skip
    assert [(row["batch"], row["context"]) for row in expected[:6]] == [
        (1, 64), (1, 128), (1, 256), (1, 512), (1, 1024), (2, 64),
    ]  # fmt: skip


@pytest.mark.parametrize("chunk_points", (1, 7, 45, 1000))
def test_no_point_depends_on_its_block(chunk_points: int, expected: list[dict[str, Any]]) -> None:
    sweep = ask_sweep("step", STEPS, chunk_points=chunk_points)
    sizes = [len(block["time_s"]) for block in sweep]
    assert all(size == chunk_points for size in sizes[:-1]) and sum(sizes) == POINTS
    assert rows(STEPS, chunk_points=chunk_points) == expected


def test_no_verdict_depends_on_its_block() -> None:
    """Sums of a closed form run over all points of a block, so that the last digits may differ."""
    for row, other in zip(
        rows(VERDICTS, "recommend", chunk_points=3), rows(VERDICTS, "recommend"), strict=True
    ):
        for name, value in other.items():
            assert row[name] == (pytest.approx(value, rel=1e-11) if isinstance(value, float) else value)


def test_processes_write_the_same_verdicts(tmp_path: Path) -> None:
    ask_sweep("recommend", VERDICTS, chunk_points=3).to_csv(tmp_path / "serial.csv")
    with ProcessPoolExecutor(2) as executor:
        ask_sweep("recommend", VERDICTS, executor=executor, chunk_points=3).to_csv(tmp_path / "pool.csv")
    assert (tmp_path / "pool.csv").read_bytes() == (tmp_path / "serial.csv").read_bytes()


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("serial") / "steps.csv"
    ask_sweep("step", STEPS).to_csv(path)
    return path.read_bytes()


def test_processes_write_the_same_bytes(serial: bytes, tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as executor:
        answer = ask_sweep("step", STEPS, executor=executor, chunk_points=17).to_csv(tmp_path / "pool.csv")
    assert (tmp_path / "pool.csv").read_bytes() == serial
    assert (answer.points, answer.refused) == (POINTS, POINTS // 2)


def test_a_dask_cluster_writes_the_same_bytes(serial: bytes, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        ask_sweep("step", STEPS, executor=executor, chunk_points=40).to_csv(tmp_path / "dask.csv")
        assert rows(STEPS, executor=executor, chunk_points=50) == rows(STEPS)
    assert (tmp_path / "dask.csv").read_bytes() == serial


class Backwards(Executor):
    """Answers what it was given last first, once somebody waits; counts what it holds."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []
        self.most = 0

    def submit(self, function: Any, /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: function(*given, **named)))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) == AHEAD:
            self.answer()
        return future

    def answer(self) -> None:
        while self.waiting:
            future, call = self.waiting.pop()
            if future.set_running_or_notify_cancel():
                future.set_result(call())


def test_blocks_come_in_order_whoever_is_done_first(expected: list[dict[str, Any]]) -> None:
    executor = Backwards()
    sweep = ask_sweep(
        "step", {**STEPS, "batch": "1:8", "context": "64:512*2"}, executor=executor, chunk_points=2
    )
    blocks = iter(sweep)
    found = [next(blocks)["batch"].tolist() for _ in range(AHEAD)]
    assert executor.most == AHEAD and found[:4] == [[1, 1], [1, 1], [2, 2], [2, 2]]
    blocks.close()  # type: ignore[attr-defined]
    assert all(future.cancelled() for future, _ in executor.waiting)


def test_an_executor_holds_only_so_many_blocks() -> None:
    held = most = 0

    class Counting(ThreadPoolExecutor):
        def submit(self, *given: Any, **named: Any) -> Any:  # type: ignore[override]
            nonlocal held, most
            held += 1
            most = max(most, held)
            return super().submit(*given, **named)

    with Counting(1) as executor:
        for _ in ask_sweep("step", STEPS, executor=executor, chunk_points=2):
            held -= 1
    assert most == AHEAD and held == 0


def test_a_csv_gives_every_number_back(serial: bytes, expected: list[dict[str, Any]], tmp_path: Path) -> None:
    found = list(csv.DictReader(serial.decode().splitlines()))
    assert len(found) == POINTS
    for row, own in zip(found, expected):
        assert (row["model"], row["hardware"], int(row["batch"])) == (
            "Llama-3.1-8B",
            own["hardware"],
            own["batch"],
        )
        assert row["reason"] == own["reason"] and row["refused"] == str(int(own["refused"]))
        assert (float(row["time_s"]) if row["time_s"] else None) == own["time_s"]
    assert not any(row["time_s"] for row in found if row["tp"] == "3")
    ask_sweep("step", STEPS).to_csv(tmp_path / "steps.csv.gz")
    assert gzip.decompress((tmp_path / "steps.csv.gz").read_bytes()) == serial


def test_parquet_has_the_same_rows(expected: list[dict[str, Any]], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "steps.parquet"
    answer = ask_sweep("step", STEPS, chunk_points=50).to_parquet(path)
    assert answer.path == str(path) and list(tmp_path.iterdir()) == [path]
    assert parquet.ParquetFile(path).num_row_groups == 4  # 50 + 50 + 50 + 30
    wanted = [row | {"reason": row["reason"] or None} for row in expected]
    assert parquet.read_table(path).to_pylist() == wanted


def test_a_data_frame_has_the_same_rows(expected: list[dict[str, Any]]) -> None:
    pytest.importorskip("pandas")
    frame = ask_sweep("step", STEPS, chunk_points=50).to_dataframe()
    assert len(frame) == POINTS and str(frame["model"].dtype) == "category"
    assert frame["time_s"].isna().tolist() == [row["refused"] for row in expected]
    assert frame["reason"].isna().tolist() == [not row["refused"] for row in expected]
    kept = frame[~frame["refused"]]
    assert kept["time_s"].tolist() == [row["time_s"] for row in expected if not row["refused"]]


def test_what_is_told(expected: list[dict[str, Any]]) -> None:
    answer = ask_sweep("step", STEPS, chunk_points=11).summary()
    assert (answer.schema, answer.question, answer.path) == ("costmodel.sweep/1", "step", None)
    assert (answer.points, answer.refused, answer.answered) == (POINTS, POINTS // 2, True)
    assert list(answer.reasons.values()) == [POINTS // 2]
    assert [(axis.column, axis.values) for axis in answer.axes if axis.values > 1] == [
        ("hardware", 2), ("tp", 2), ("batch", 9), ("context", 5),
    ]  # fmt: skip
    known = [row for row in expected if not row["refused"]]
    for extremes in answer.extremes:
        least = min(known, key=lambda row: row[extremes.figure])
        most = max(known, key=lambda row: row[extremes.figure])
        assert (extremes.least, extremes.most) == (least[extremes.figure], most[extremes.figure])
        assert extremes.least_at["context"] == least["context"] and extremes.most_at["batch"] == most["batch"]
    assert [row["context"] for row in answer.rows] == [row["context"] for row in expected[:10]]
    assert any("a100-sxm-80gb" in text for text in answer.about.sources)


def test_nothing_is_answered_where_every_point_is_refused() -> None:
    answer = ask_sweep("step", {**STEPS, "tp": 3}).summary()
    assert not answer.answered and answer.extremes == () and answer.about.sources == ()


def test_memory_does_not_grow_with_the_grid() -> None:
    axes: dict[str, object] = {
        **STEPS,
        "hardware": "h100-sxm",
        "tp": 1,
        "batch": "1:100",
        "context": "1:20000",
    }
    blocks: Iterator[Any] = iter(ask_sweep("step", axes, chunk_points=16_384))
    next(blocks)
    tracemalloc.start()
    points = sum(len(block["time_s"]) for block in blocks)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert points == 2_000_000 - 16_384
    # A block's dozen columns of 128 KiB twice over (one is made while the one before lives), and what is worked with.
    assert most < 8e6


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("before")
    sweep = ask_sweep(
        "step", STEPS, chunk_points=10, progress=lambda told: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        sweep.to_csv(path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="cannot be written"):
        ask_sweep("step", STEPS).to_csv(tmp_path / "nowhere" / "steps.csv")


def test_what_does_not_fit_on_a_disk_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000))
    axes: dict[str, object] = {**STEPS, "context": "1:1000000000"}
    with pytest.raises(InputError, match="TB for all points, and 10 kB free"):
        ask_sweep("step", axes, chunk_points=100).to_csv(tmp_path / "steps.csv")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="a data frame of all points takes 8 PB"):
        check_memory(8e15)


def test_every_problem_is_told_at_once() -> None:
    axes = {
        "model": "Lama-3.1-8B",
        "hardware": "h100-sxm,h900",
        "phase": "decode",
        "batch": "9:1",
        "contxt": 5,
    }
    with pytest.raises(InputError) as raised:
        ask_sweep("step", axes)
    told = str(raised.value)
    for part in ("MODEL: ", "'h900'", "--batch: '9:1' is an empty range", "did you mean 'context'?"):
        assert part in told
    with pytest.raises(InputError, match="did you mean 'step'"):
        ask_sweep("steps", {})
    with pytest.raises(InputError, match="--chunk-points must be a whole number of at least 1"):
        ask_sweep("step", STEPS, chunk_points=0)
    wrong: Any
    for wrong in (1.5, "5", None, True):
        with pytest.raises(InputError, match="--chunk-points must be a whole number of at least 1"):
            ask_sweep("step", STEPS, chunk_points=wrong)
    for wrong in (None, 5, [], "stp"):
        with pytest.raises(InputError, match="unknown question"):
            ask_sweep(wrong, STEPS)
    for wrong in (None, [], "x"):
        with pytest.raises(InputError, match="axes: pass a mapping from names to values"):
            ask_sweep("step", wrong)
    wrong = {5: 5}
    with pytest.raises(InputError, match="a sweep of step has no axis 5"):
        ask_sweep("step", {**STEPS, **wrong})
    with pytest.raises(InputError, match=r"ends in none of \.csv"):
        ask_sweep("step", STEPS).to_file("steps.xlsx")


def test_a_sweep_has_one_phase() -> None:
    """Each phase needs an axis that another forbids: nothing else is told of them."""
    with pytest.raises(InputError) as raised:
        ask_sweep("step", {**STEPS, "phase": "prefill,decode", "isl": 5})
    assert raised.value.problems == (
        "--phase: one a sweep, for each has axes of its own; ask for a sweep of each",
    )


def test_reasons_beyond_some_are_counted_together() -> None:
    import numpy as np

    count = MOST_COUNTED + 500
    block = {
        "refused": np.ones(count, dtype=bool),
        "reason": np.array([f"because of {n}" for n in range(count)], object),
    }
    whole, tally = Tally(), Tally()
    tally.add(block, ())
    whole.merge(tally)
    whole.merge(tally)
    assert whole.refused == 2 * count and sum(whole.reasons.values()) == 2 * count
    assert len(whole.reasons) == MOST_COUNTED + 1
    assert len(told(whole.reasons)) <= MOST_TOLD + 1 and sum(told(whole.reasons).values()) == 2 * count


def test_lines_say_what_columns_hold() -> None:
    import numpy as np

    block = {
        "same": np.array(["100 %, or so"] * 3, object),
        "text": np.array(["a", 'say "b"', None], object),
        "count": np.array([1, 2, 2]),
        "time_s": np.array([0.1, np.nan, 1e-300]),
        "flag": np.array([True, False, True]),
        "none": np.full(3, np.nan),
    }
    expected = [
        '"100 %, or so",a,1,0.1,1,',
        '"100 %, or so","say ""b""",2,,0,',
        '"100 %, or so",,2,1e-300,1,',
    ]
    assert lines(block) == "\n".join(expected) + "\n"
    assert lines({name: column[:1] for name, column in block.items()}) == expected[0] + "\n"
    assert lines({"a": np.full(2, 3), "b": np.full(2, 0.5)}) == "3,0.5\n3,0.5\n"
