"""The file of requests: what it says of records, and that it is written whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from costmodel import whole_file
from costmodel.errors import InputError
from costmodel.evaluate.replay import replay
from costmodel.evaluate.timeline import ACCOUNTS, Record
from costmodel.inputs.workload import Request, Slo
from costmodel.report.requests_csv import COLUMNS, requests_csv
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy

SLO = Slo(0.04, 0.005)
ROWS = [
    Request(0.0007 * at, 40 + 37 * at % 150, 90 * (at % 3 == 0), 1 + 5 * at % 12) for at in range(60)
]  # tight: KV of many does not fit at once
STAMPS = ("p0", "p1", "reserved", "copied", "d0", "first", "end")


def records_of(bench: Any, strategy: Strategy, **engine: Any) -> list[Record]:
    deployment = bench.deployment("2P1D", pool_tokens=400, control_s=0.003, **engine)
    records = replay(strategy, deployment, ROWS, SLO).records
    return sorted(records, key=lambda record: record.end)


def written(path: Path, records: list[Record], slo: Slo | None = SLO) -> list[dict[str, str]]:
    with requests_csv(path, slo) as add:
        for record in records:
            add(record)
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("strategy", [COLOCATED, CHUNKED, DISAGGREGATED], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("first_token", ["decode", "prefill"])
@pytest.mark.parametrize("name", ["requests.csv", "requests.csv.gz"])
def test_every_number_reads_back(
    bench: Any, tmp_path: Path, strategy: Strategy, first_token: str, name: str
) -> None:
    records = records_of(bench, strategy, first_token=first_token)
    rows = written(tmp_path / name, records)
    assert len(rows) == len(records) == len(ROWS) and tuple(rows[0]) == COLUMNS
    for row, record in zip(rows, records):
        assert row["index"] == str(record.index) and row["route"] == record.route
        assert int(row["prompt_tokens"]) == record.request.isl
        assert (int(row["cached_tokens"]), int(row["preempted"])) == (record.cached, record.preempted)
        for key in ("ttft", "e2e", "ideal"):
            assert float(row[f"{key}_s"]) == getattr(record, key)
        for key in ACCOUNTS:
            assert float(row[f"{key}_s"]) == record.account(key)
        accounts = sum(float(row[f"{key}_s"]) for key in ACCOUNTS)
        assert accounts == pytest.approx(float(row["e2e_s"]) - float(row["ideal_s"]), abs=1e-12)
        went = record.route == "remote" and not (first_token == "prefill" and record.request[3] == 1)
        for key in STAMPS:
            blank = key in ("reserved", "copied", "d0") and not went
            assert row[f"{key}_s"] == "" if blank else float(row[f"{key}_s"]) == getattr(record, key)
        assert row["decode_on"] == ("" if record.decode_on < 0 else str(record.decode_on))
        slow = record.tpot is not None and record.tpot > 0.005
        assert row["met"] == str(int(record.ttft <= 0.04 and not slow))
        assert (row["tpot_s"] == "") == (record.request.output_tokens == 1)
    assert {row["met"] for row in rows} == {"0", "1"}
    if strategy is COLOCATED:
        assert any(record.preempted for record in records)


def test_a_line_by_hand(tmp_path: Path) -> None:
    # TTFT 4 - 1.5, E2E 5 - 1.5, TPOT (5 - 4) / 2, ideal 1 + 0.5, admission 0.25 + 0.125.
    record = Record(
        Request(1.5, 10, 6, 3), 4, "remote", cached=5, preempted=1, prefill_on=0, decode_on=2, p0=2.0, p1=3.0,
        reserved=3.25, copied=3.5, d0=3.75, first=4.0, end=5.0, ideal_prefill=1.0, ideal_decode=0.5,
        queue=0.5, admission=0.25, seating=0.125, load=0.0, stretch=-0.5, link=0.75, handover=1.25,
        stalls=0.03125, gathering=0.0625, recompute=2.0,
    )  # fmt: skip
    path = tmp_path / "one.csv"
    written(path, [record], None)
    assert path.read_text() == (
        "index,arrival_s,prompt_tokens,cached_tokens,output_tokens,route,prefill_on,decode_on,preempted,"
        "ttft_s,tpot_s,e2e_s,ideal_s,queue_s,admission_s,load_s,stretch_s,link_s,handover_s,stalls_s,"
        "gathering_s,recompute_s,p0_s,p1_s,reserved_s,copied_s,d0_s,first_s,end_s,met\n"
        "4,1.5,16,5,3,remote,0,2,1,2.5,0.5,3.5,1.5,0.5,0.375,0,-0.5,0.75,1.25,0.03125,0.0625,2,"
        "2,3,3.25,3.5,3.75,4,5,\n"
    )


def test_no_slo_is_met_by_none(bench: Any, tmp_path: Path) -> None:
    records = records_of(bench, COLOCATED)
    assert {row["met"] for row in written(tmp_path / "a.csv", records, Slo())} == {""}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
@pytest.mark.parametrize("before", [None, b"older"])
def test_nothing_is_left_half_written(
    tmp_path: Path, name: str, error: type[BaseException], before: bytes | None
) -> None:
    path = tmp_path / name
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(error), requests_csv(path) as add:
        for _ in range(10_000):  # more than is buffered
            add(Record(Request(0.0, 1, 0, 1), first=1.0, end=1.0))
        assert len(list(tmp_path.iterdir())) == (1 if before is None else 2)
        raise error
    assert [file.name for file in tmp_path.iterdir()] == ([] if before is None else [name])
    assert before is None or path.read_bytes() == before


def test_the_same_run_gives_the_same_bytes(bench: Any, tmp_path: Path) -> None:
    records = records_of(bench, COLOCATED)
    for name in ("a.csv.gz", "b.csv.gz"):
        written(tmp_path / name, records)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "no" / "a.csv", "No such file or directory"),
        (tmp_path, "it is no file"),
        (Path("/dev/null"), "it is no file"),
    ):
        with pytest.raises(InputError, match=f"{path}: cannot be written: {said}"), requests_csv(path):
            pytest.fail("must not be reached")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lines", [1, 10_000])
def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("older")
    monkeypatch.setattr(whole_file, "_opened", lambda *_: io.TextIOWrapper(io.FileIO("/dev/full", "w")))
    with pytest.raises(InputError, match=f"{path}: cannot be written: No space"), requests_csv(path) as add:
        for _ in range(lines):
            add(Record(Request(0.0, 1, 0, 1), first=1.0, end=1.0))
    assert path.read_text() == "older" and len(list(tmp_path.iterdir())) == 1
