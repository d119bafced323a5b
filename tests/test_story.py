"""Sentences about slow requests: by hand, and against the ledgers of replays."""

from __future__ import annotations

import re
from typing import Any

import pytest

from costmodel.evaluate.replay import replay
from costmodel.evaluate.story import Story, e2e_story, ttft_story
from costmodel.evaluate.timeline import Record
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy

ROWS = [Request(0.0007 * at, 40 + 37 * at % 150, 90 * (at % 3 == 0), 1 + 5 * at % 12) for at in range(60)]
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def remote(**accounts: Any) -> Record:
    """Arrives at 100 s and waits 3.1; prefill 3.4 (alone 2.9); memory 0.7; copy 0.2; step 0.05; decode 0.64."""
    record = Record(
        Request(100.0, 30211, 0, 64), 812, "remote", ahead=4, ahead_tokens=30000, prefill_on=0, decode_on=1,
        p0=103.1, p1=106.5, reserved=107.2, copied=107.4, d0=107.45, first=107.45, end=108.09,
        ideal_prefill=2.9, ideal_decode=0.5, queue=3.1, stretch=0.5, seating=0.75, handover=0.2, gathering=0.14,
    )  # fmt: skip
    for name, value in accounts.items():
        setattr(record, name, value)
    return record


def test_ttft_by_hand() -> None:
    # TTFT 7.45 is 4.55 over the prefill alone; 3.1, 0.7 and 0.5 leave 0.25 of it, less than a tenth.
    story = ttft_story(remote(), "decode")
    assert (story.index, story.arrival_s, story.prompt_tokens, story.output_tokens) == (812, 100.0, 30211, 64)
    assert story.ttft_s == pytest.approx(7.45) and story.e2e_s == pytest.approx(8.09)
    assert story.text == (
        "request 812 (30,211 + 64 tokens): TTFT 7.45 s; prefill 3.4 s (alone 2.9 s), "
        "waited 3.1 s behind 4 prompts with 30,000 tokens to compute, 700 ms for memory on the decode side"
    )


def test_where_the_first_token_comes_from() -> None:
    # From the prefill side it does not wait for the copy: TTFT 6.5.
    assert ttft_story(remote(first=106.5), "prefill").text == (
        "request 812 (30,211 + 64 tokens): TTFT 6.5 s; prefill 3.4 s (alone 2.9 s), "
        "waited 3.1 s behind 4 prompts with 30,000 tokens to compute"
    )


def test_e2e_by_hand() -> None:
    # E2E 8.09 is 4.69 over the ideal 3.4; 3.1, 0.7 and 0.5 leave 0.39 of it.
    assert e2e_story(remote()).text == (
        "request 812 (30,211 + 64 tokens): E2E 8.09 s; prefill 3.4 s (alone 2.9 s), "
        "waited 3.1 s behind 4 prompts with 30,000 tokens to compute, 700 ms for memory on the decode side, "
        "decode 640 ms"
    )


@pytest.mark.parametrize(
    ("accounts", "said"),
    [
        ({"ahead": 0}, "waited 3.1 s for its first step"),
        ({"ahead": 1, "ahead_tokens": 7}, "waited 3.1 s behind 1 prompt with 7 tokens to compute"),
        ({"admission": 60.0}, "held back 60 s for memory or a seat before prefill"),
        ({"seating": 60.0}, "59.3 s until a decode step began once copied"),
        ({"load": 50.0}, "50 s to load its cached prefix"),
        ({"link": 50.0}, "50 s for a busy link"),
        ({"handover": 50.0}, "copy 50 s"),
        ({"stalls": 50.0}, "50 s in stalls by prefills of others"),
        ({"gathering": 50.0}, "decode 50.5 s (alone 500 ms)"),
        ({"gathering": -60.0, "ideal_decode": 80.0}, "decode 20 s (alone 80 s)"),
        ({"stretch": -2.0}, "prefill 900 ms (alone 2.9 s)"),
        ({"recompute": 50.0, "preempted": 1}, "50 s to compute again after 1 preemption"),
        ({"recompute": 50.0, "preempted": 3}, "50 s to compute again after 3 preemptions"),
    ],
)
def test_words(accounts: dict[str, Any], said: str) -> None:
    assert said in e2e_story(remote(**accounts)).text


def test_a_request_alone() -> None:
    # Rounding of the clock is no delay.
    record = Record(
        Request(0.0, 10, 0, 1), route="local", p0=0.0, p1=0.25, first=0.25, end=0.25, ideal_prefill=0.25,
        stretch=1e-17, gathering=-1e-18,
    )  # fmt: skip
    assert ttft_story(record, "decode").text == "request 0 (10 + 1 tokens): TTFT 250 ms; prefill 250 ms"
    assert e2e_story(record).text == "request 0 (10 + 1 tokens): E2E 250 ms; prefill 250 ms"


def parts(story: Story) -> list[float]:
    """The time that each part names first, in seconds."""
    told = re.sub(r"(?<=\d),(?=\d)", "", story.text.partition("; ")[2])
    found = [re.search(r"(-?[\d.]+) (s|ms|us|ns)\b", part) for part in told.split(", ")]
    return [float(match[1]) * UNITS[match[2]] for match in found if match]


@pytest.mark.parametrize("strategy", [COLOCATED, CHUNKED, DISAGGREGATED], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("first_token", ["decode", "prefill", "recompute"])
def test_parts_explain_nine_tenths(bench: Any, strategy: Strategy, first_token: str) -> None:
    deployment = bench.deployment("2P1D", pool_tokens=400, control_s=0.003, first_token=first_token)
    for record in replay(strategy, deployment, ROWS, Slo(0.04, 0.005)).records:
        ideal = record.ideal_prefill
        for story, total, delay in (
            (ttft_story(record, first_token), record.ttft, record.ttft - ideal),
            (e2e_story(record), record.e2e, record.delay),
        ):
            named = parts(story)
            assert named == sorted(named, reverse=True)
            assert abs(sum(named) - total) <= 0.1 * abs(delay) + 0.01 * total
