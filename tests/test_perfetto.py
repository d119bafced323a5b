"""The timeline file: legal trace events, lanes without overlaps, requests without gaps."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.evaluate.busy import BusyBins
from costmodel.evaluate.replay import replay
from costmodel.evaluate.spans import Lanes
from costmodel.evaluate.timeline import ACCOUNTS, Record
from costmodel.inputs.workload import Request, Slo
from costmodel.report.perfetto import instance_names, perfetto
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)

SLO = Slo(0.04, 0.005)
SOME = deflected(Rule(RuleKind.THRESHOLD, threshold=100))
STRATEGIES = (COLOCATED, CHUNKED, DISAGGREGATED, SOME)
ROWS = [Request(0.0007 * at, 40 + 37 * at % 150, 90 * (at % 3 == 0), 1 + 5 * at % 12) for at in range(60)]
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
Event = dict[str, Any]


def events_of(path: Path, records: list[Record], names: list[str]) -> list[Event]:
    with perfetto(path, names) as timeline:
        for record in records:
            timeline.add(record)
    events: list[Event] = json.loads(path.read_text())
    return events


def of(events: list[Event], phase: str) -> list[Event]:
    return [event for event in events if event["ph"] == phase]


def request_of(event: Event) -> int:
    number: int = event["args"]["request"]
    return number


@every_strategy
@pytest.mark.parametrize("first_token", ["decode", "prefill"])
@pytest.mark.parametrize("overlap", ["serial", "layerwise"])
def test_lanes_and_requests(
    bench: Any, tmp_path: Path, strategy: Strategy, first_token: str, overlap: str
) -> None:
    deployment = bench.deployment(
        "2P2D", pool_tokens=400, control_s=0.003, first_token=first_token, overlap=overlap
    )
    records = sorted(replay(strategy, deployment, ROWS, SLO).records, key=lambda record: record.end)
    events = events_of(tmp_path / "t.json", records, instance_names(strategy, deployment))
    slices = of(events, "X")
    assert all(
        type(event["ts"]) is int and type(event["dur"]) is int and event["dur"] > 0 for event in slices
    )
    check_lanes(slices)
    requests = defaultdict(list)
    for event in slices:
        requests[request_of(event)].append(event)
    assert len(requests) == len(records) == len(ROWS)
    for record in records:
        check_request(record, requests[record.index])
    check_flows(events, records)
    assert any(event["cat"] == "queue" for event in slices)


def check_lanes(slices: list[Event]) -> None:
    """Slices of one thread follow each other, and no thread is of two processes."""
    lanes = defaultdict(list)
    for event in slices:
        lanes[event["tid"]].append(event)
    for lane in lanes.values():
        assert len({event["pid"] for event in lane}) == 1
        lane.sort(key=lambda event: event["ts"])
        assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in pairwise(lane))


def check_request(record: Record, slices: list[Event]) -> None:
    """Stages from arrival to end without a gap, each where it was, and the ledger beside the prefill."""
    slices.sort(key=lambda event: event["ts"])
    assert slices[0]["ts"] == round(record.request.arrival_s * 1e6)
    assert slices[-1]["ts"] + slices[-1]["dur"] == round(record.end * 1e6)
    assert all(one["ts"] + one["dur"] == other["ts"] for one, other in pairwise(slices))
    assert all(event["name"] == f"{event['cat']} {record.index}" for event in slices)
    stages = {event["cat"]: event for event in slices}
    assert len(stages) == len(slices)
    prefill = stages["prefill"]
    assert prefill["pid"] == record.prefill_on + 1 and prefill["ts"] == round(record.p0 * 1e6)
    assert ("copy" in stages) == bool(record.copied)
    if "decode" in stages:
        assert stages["decode"]["pid"] == record.decode_on + 1
        assert stages["decode"]["ts"] == round((record.d0 or record.p1) * 1e6)
    args = prefill["args"]
    assert (args["prompt_tokens"], args["output_tokens"]) == (record.request.isl, record.request[3])
    assert [args[f"{name}_s"] for name in ACCOUNTS] == [record.account(name) for name in ACCOUNTS]


def check_flows(events: list[Event], records: list[Record]) -> None:
    """One flow a request that went on elsewhere, each end inside a slice of that request."""
    starts, ends = ({event["id"]: event for event in of(events, phase)} for phase in ("s", "f"))
    assert len(of(events, "s")) == len(starts) and len(of(events, "f")) == len(ends)
    copied = {record.index: record for record in records if record.copied and record.end > record.copied}
    assert starts.keys() == ends.keys() == copied.keys()
    for index, record in copied.items():
        start, end = starts[index], ends[index]
        assert start["ts"] <= end["ts"] and end["bp"] == "e" and "bp" not in start
        assert (start["pid"], end["pid"]) == (record.prefill_on + 1, record.decode_on + 1)
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        for flow in (start, end):
            assert [
                request_of(event)
                for event in of(events, "X")
                if event["tid"] == flow["tid"] and event["ts"] <= flow["ts"] < event["ts"] + event["dur"]
            ] == [index]


def test_by_hand(tmp_path: Path) -> None:
    # Waits 1 s, prefill 2 s, copied at once in 0.5 s, waits 0.25 s for a step, decodes 0.25 s.
    record = Record(
        Request(1.0, 10, 0, 2), 0, "remote", prefill_on=0, decode_on=1, p0=2.0, p1=4.0, reserved=4.0,
        copied=4.5, d0=4.75, first=4.75, end=5.0,
    )  # fmt: skip
    events = events_of(tmp_path / "t.json", [record], ["prefill 0 (x)", 'decode 0 ("y")'])
    named = {
        event["pid"]: event["args"]["name"] for event in of(events, "M") if event["name"] == "process_name"
    }
    assert named == {1: "prefill 0 (x)", 2: 'decode 0 ("y")', 3: "pools"}
    lanes = [(e["pid"], e["tid"], e["args"]["name"]) for e in of(events, "M") if e["name"] == "thread_name"]
    assert lanes == [(1, 4, "lane 0"), (2, 5, "lane 0")]
    assert [(e["cat"], e["pid"], e["tid"], e["ts"], e["dur"]) for e in of(events, "X")] == [
        ("queue", 1, 4, 1_000_000, 1_000_000),
        ("prefill", 1, 4, 2_000_000, 2_000_000),
        ("copy", 1, 4, 4_000_000, 500_000),
        ("wait for a step", 2, 5, 4_500_000, 250_000),
        ("decode", 2, 5, 4_750_000, 250_000),
    ]
    assert [(e["ph"], e["tid"], e["ts"]) for e in events if e["ph"] in "sf"] == [
        ("s", 4, 4_499_999),
        ("f", 5, 4_500_000),
    ]


def test_instances_are_named_by_pool(bench: Any) -> None:
    deployment = bench.deployment("1P2D", decode=("h100-sxm", 2))
    first, *others = instance_names(DISAGGREGATED, deployment)
    assert first == "prefill 0 (a100-sxm-80gb)"
    assert others == ["decode 0 (h100-sxm TP2)", "decode 1 (h100-sxm TP2)"]
    assert instance_names(COLOCATED, deployment) == [
        "shared 0 (a100-sxm-80gb)",
        "shared 1 (h100-sxm TP2)",
        "shared 2 (h100-sxm TP2)",
    ]


def test_busy_shares_are_counters_that_return_to_0(tmp_path: Path) -> None:
    bins = BusyBins(2, most=2)
    bins.add(0.0, 1.5 * 2.0**-10)  # of two instances: 1 of 2 ticks, then 0.5 of 2 * 0.5
    with perfetto(tmp_path / "t.json", ["shared 0 (x)"]) as timeline:
        timeline.busy("shared", bins.shares())
        timeline.busy("idle", [])
    counters = of(json.loads((tmp_path / "t.json").read_text()), "C")
    assert {(event["name"], event["pid"]) for event in counters} == {("shared busy", 2)}
    # a tick is 976.5625 us
    assert [(e["ts"], e["args"]["share"]) for e in counters] == [(0, 0.5), (977, 0.5), (1465, 0.0)]


@pytest.mark.parametrize("missing", [None, 0, 7])
def test_requests_that_never_end_hold_none_back(tmp_path: Path, missing: int | None) -> None:
    records = [
        Record(
            Request(at, 1, 0, 1), int(at), "local", prefill_on=0, decode_on=0, p0=at, p1=at + 1, end=at + 1
        )
        for at in range(20)
        if at != missing
    ]
    Random(1).shuffle(records)
    slices = of(events_of(tmp_path / "t.json", records, ["a"]), "X")
    assert [request_of(event) for event in slices] == [at for at in range(20) if at != missing]
    assert len({event["tid"] for event in slices}) == 1


def test_as_many_lanes_as_overlap() -> None:
    random = Random(3)
    spans = sorted(
        (start, start + random.uniform(0, 5)) for start in (random.uniform(0, 50) for _ in range(300))
    )
    lanes = Lanes()
    taken = Counter(lanes.take(*span) for span in spans)
    deepest = max(sum(start <= at < end for start, end in spans) for at, _ in spans)
    assert set(taken) == set(range(deepest))


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_an_interrupt_leaves_what_was(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"older")
    with pytest.raises(KeyboardInterrupt), perfetto(path, ["a"]) as timeline:
        for at in range(2000):
            timeline.add(
                Record(Request(at, 1, 0, 1), int(at), "local", prefill_on=0, p0=at, p1=at + 1, end=at + 1)
            )
        raise KeyboardInterrupt
    assert path.read_bytes() == b"older" and [file.name for file in tmp_path.iterdir()] == [name]
    with pytest.raises(InputError), perfetto(tmp_path, ["a"]):
        pytest.fail("must not be reached")


def test_compressed_and_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    with perfetto(path, ["a"]):
        pass
    assert len(json.loads(gzip.decompress(path.read_bytes()))) == 4
