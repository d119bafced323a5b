"""Which shares of P95 TTFT each mechanism gives, and what would tell mechanisms apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from common import Rows, table
from kairos_figures import EXECUTION_SHARE, PUBLISHED, Published
from kairos_mechanisms import (
    AT,
    MECHANISMS,
    PLACES,
    Seen,
    distance,
    each_seen,
    keeps_up,
    nearest,
    own_p95,
    said,
    seconds,
    seen,
    shares,
    tried,
)
from kairos_runs import REQUESTS, Knobs, Stages, loaded, play, stages

from costmodel.evaluate.summary import mean
from costmodel.inputs.workload import Workload

QUEUEING_LOADS = (0.2, 0.3, 0.4, 0.5, 0.8, 0.9, 0.95, 1.0)
CARRIED = (0.15, 0.2, 0.3, 0.6, 0.7)
#: Workloads without a published transfer: at the load of hphd, at the packaged rate, and where 0.4 s keep up.
OTHERS = (("hpld", 0.8), ("bursty", 0.4), ("lphd", 0.15))


def mechanism_rows() -> Rows:
    """Published figures, and under each the nearest value of every mechanism."""
    rows: Rows = []
    for name in dict.fromkeys(name for name, _ in PLACES):
        said_of = PUBLISHED[name]
        rows.append((f"**{name}, published**", "", *own_p95(said_of), *shares(said_of), "", ""))
        for load in (load for other, load in PLACES if other == name):
            for (mechanism, (label, *_)), own in zip(MECHANISMS.items(), each_seen(name, load)):
                off = f"x{math.exp(distance(own, said_of)):.2f}"
                around = ", ".join(f"{part:.2f}" for part in own.around)
                value = said(mechanism, nearest(mechanism, name, load))
                rows.append((f"{load:g}: {label}", value, *own_p95(own), *shares(own), off, around))
    return rows


def queueing_rows() -> Rows:
    """Plain queueing for prefill, by load."""
    rows: Rows = []
    for load in QUEUEING_LOADS:
        pair = [seen(name, load) for name in ("lpld", "hphd")]
        cells = [cell for own in pair for cell in (*map(seconds, (own.queue, own.ttft)), *shares(own))]
        rows.append((f"{load:g}", *cells))
    return rows


def busy_from() -> float:
    """The load from which on plain queueing leaves execution no more than its published share, in both workloads."""
    return min(
        load
        for load in QUEUEING_LOADS
        if all(
            own.execution / own.ttft <= EXECUTION_SHARE[1] for own in (seen("lpld", load), seen("hphd", load))
        )
    )


def carried() -> dict[str, Knobs]:
    """The value of each mechanism that is nearest at hphd, by what it is in words."""
    found = {mechanism: nearest(mechanism, *AT) for mechanism in MECHANISMS}
    return {f"{MECHANISMS[each].label}, {said(each, knobs)}": knobs for each, knobs in found.items()}


def carried_rows() -> Rows:
    """Those values at lpld, at several loads: P95 transfer, and P95 queue."""
    rows: Rows = []
    for label, knobs in carried().items():
        cells = []
        for load in CARRIED:
            if keeps_up(knobs, "lpld", load):
                own = seen("lpld", load, knobs)
                cells.append(f"{seconds(own.transfer)}; {seconds(own.queue)}")
            else:
                cells.append("unstable")
        rows.append((label, *cells))
    return rows


def other_rows() -> Rows:
    """Those values at the other workloads, below what is published of them."""
    found: dict[str, list[Seen | Published | None]] = {
        "**published**": [PUBLISHED.get(name) for name, _ in OTHERS]
    }
    found |= {label: [seen(*place, knobs) for place in OTHERS] for label, knobs in carried().items()}
    return [
        (label, *(cell for p in each for cell in ((f"{p.ttft:.2f}", *shares(p)) if p else ("-",) * 3)))
        for label, each in found.items()
    ]


def least_sum() -> float:
    """The least sum of stages' P95 over P95 TTFT, of all values tried at all places."""
    return min(
        seen(name, load, knobs).adds_to
        for name, load in PLACES
        for mechanism in MECHANISMS
        for knobs in tried(mechanism, name, load)
    )


def lpld_seen() -> list[Seen]:
    """lpld under every mechanism, at both loads."""
    return [own for place in PLACES if place[0] == "lpld" for own in each_seen(*place)]


def least_transfer() -> float:
    """The least share of transfer among them."""
    return min(own.transfer / own.ttft for own in lpld_seen())


def quarters(rows: Sequence[tuple[int, Stages]]) -> tuple[float, float]:
    """Mean transfer of the shortest and of the longest quarter of prompts."""
    ordered = sorted(rows, key=lambda row: row[0])
    part = len(ordered) // 4
    return mean([s.transfer for _, s in ordered[:part]]), mean([s.transfer for _, s in ordered[-part:]])


def shortened(workload: Workload) -> Workload:
    """The same with half the output."""
    assert workload.output is not None
    return replace(workload, output=replace(workload.output, median=workload.output.median / 2))


def measurement_rows() -> Rows:
    """What measurements of the transfer would say under each mechanism: mean seconds."""
    rows: Rows = []
    for mechanism, (label, *_) in MECHANISMS.items():
        knobs, workload = nearest(mechanism, *AT), loaded(*AT)
        records = play(workload, knobs).finished
        short, long = quarters([(r.request.isl, stages(r, knobs)) for r in records])
        all_of = mean([stages(r, knobs).transfer for r in records])
        others = (workload.at_rate(workload.rate / 10), shortened(workload))
        idle, half = (mean([stages(r, knobs).transfer for r in play(w, knobs).finished]) for w in others)
        rows.append(
            (label, *map(seconds, (all_of, short, long)), f"{long / short:.1f}", *map(seconds, (idle, half)))
        )
    return rows


def shares_section() -> str:
    """One mechanism at a time."""
    header = ("load: mechanism", "value", "TTFT, s", "queue", "execution", "transfer", "decode queue",
              "execution's share", "transfer's share", "off",
              "queue, execution, memory, port, wire, boundary")  # fmt: skip
    stages_ = "TTFT", "execution", "transfer"
    queueing = "load", "lpld: queue", *stages_, "hphd: queue", *stages_
    found = each_seen(*AT)
    execution = [own.execution / own.ttft for own in found]
    moved = [own.transfer / own.ttft for own in found]
    short = [own.execution / own.ttft for own in lpld_seen()]
    half = each_seen("hphd", 0.5)
    lower = [own.execution / own.ttft for own in half], [own.transfer / own.ttft for own in half]
    low = [seen(name, 0.9) for name in ("lpld", "hphd")]
    wires = [
        own.transfer / own.ttft for load in QUEUEING_LOADS for own in (seen("lpld", load), seen("hphd", load))
    ]
    return f"""## One mechanism at a time

- *Slow copies, side by side*: each takes its bytes over a bandwidth of its own and waits for no other.
- *Serial hand-over*: each takes the same time, and holds the ports of both ends meanwhile: two at once in a 2P2D.
- *Decode admission*: a decode instance has few seats, and the copy starts when one is free, as pulling connectors \
do. Short KV memory would do the same.

Of {", ".join(str(len(values)) for *_, values in MECHANISMS.values())} values tried, the table has the one nearest \
to the published transfer and TTFT (by the root mean square of the logarithms of both ratios; *off* is that distance \
as a factor). So the value of the knob is read off the published figures, and execution agrees by construction: **both \
shares follow from these three, and only queue and decode queue are independent of them**. lpld \
is shown at load 0.3, where its P95 queue is near the published one, hphd at 0.8, as published SM utilisation of \
prefill nodes suggests, and both also at 0.5. Transfer is all the time between the end of prefill and the end of the \
copy. Columns of seconds are P95s of their own; the last one has the mean stages of the requests at P94 to P96 of \
TTFT, which add up: *memory* is the wait for a seat or KV memory at the decode instance, *port* the wait for a port, \
*wire* the copy, and *boundary* the wait for the next decode step. {REQUESTS:,} requests, seed 1.

{table(mechanism_rows(), header)}

**The figures cannot tell them apart.** At hphd and a load of 0.8 three unlike mechanisms give execution \
{min(execution):.1%} to {max(execution):.1%} (published 19.4%) and transfer {min(moved):.1%} to {max(moved):.1%} \
(published 57.0%), each with one value of one knob; at 0.5 they give {min(lower[0]):.1%} to {max(lower[0]):.1%} and \
{min(lower[1]):.1%} to {max(lower[1]):.1%}, further off and as near to each other. At lpld all three give execution \
of {min(short):.0%} to {max(short):.0%} (published 3%), and all miss the transfer's share in the same way: whatever \
makes the transfer 4 s long is {least_transfer():.1%} or more of TTFT, where the published one is 67%. That is the \
1.77 s that no stage has. Over all values tried, stages' P95s add up to at least {least_sum():.2f} of P95 TTFT (below \
1 where a wait hits fewer than one request in twenty, so that its own P95 does not show it); the published lpld has \
0.72. A single mechanism does not give that; time outside of the four stages, or rare long waits in several of them, \
would.

How plausible is each value? No link is as slow as 25 to 200 MB/s, but software is where a copy falls into small \
pieces: [sglang 35036](https://github.com/sgl-project/sglang/pull/35036) reports 4,792 MB/s for one piece and 15.5 \
MB/s for 4,096, and [sglang 35186](https://github.com/sgl-project/sglang/pull/35186) a median transfer of 6.28 s for \
latent KV in pieces of a token (another model, eight ways). [vLLM \
50913](https://github.com/vllm-project/vllm/issues/50913) has hand-overs of 0.26 s, 0.11 s of which are the copy; \
whether they go one at a time is not reported. 4 to 16 seats are far below the usual limit of 256, and the KV of \
these workloads fills a small part of the pool: decode admission needs much more decode load than they have.

**Queueing for prefill alone** gives small execution shares, too, and hardly any transfer \
({min(wires):.1%} to {max(wires):.1%}):

{table(queueing_rows(), queueing)}

At a load of 0.9 execution is {low[0].execution / low[0].ttft:.1%} (lpld) and {low[1].execution / low[1].ttft:.1%} \
(hphd) of TTFT, with a free link: "execution 2 to 23%, the rest queueing and transfer" holds for a prefill pool near \
capacity, here from {busy_from():g} on, and not for any busy one (at 0.8 it is about 40%). Loads above 0.9 depend on \
the length of the run. Queueing for prefill is not what happened at lpld: the published P95 queue, 59 ms, is that of \
a load between 0.3 and 0.4, and a queue of seconds needs a pool at capacity.
"""


def telling_section() -> str:
    """What would tell mechanisms apart."""
    measured = (f"mechanism at {AT[0]}, {AT[1]:g}", "as it is", "shortest quarter", "longest quarter", "ratio",
                "a tenth of the rate", "half the output")  # fmt: skip
    slow = seen("lpld", CARRIED[0], nearest("bandwidth", *AT)).transfer / (PUBLISHED["lpld"].transfer or 1.0)
    others = [head for name, load in OTHERS for head in (f"{name}, {load:g}: TTFT", "execution", "transfer")]
    return f"""## What would tell them apart

Mean transfer in seconds: of all prompts as it is, of prompts by length, at a tenth of the rate, and with outputs \
half as long:

{table(measurement_rows(), measured)}

Transfer against prompt length singles out slow copies; transfer at idle separates a cost of each hand-over, which \
stays, from a wait, which goes; shorter outputs at the same rate take away only the wait for decode. Three columns of \
one log would tell these three apart. The published workloads allow one such test. The values that are nearest at \
hphd, used at lpld (P95 transfer and P95 queue in s; published are 4.21 and 0.059; *unstable*: copies come faster \
than the ports serve them):

{table(carried_rows(), ("mechanism", *(f"load {load:g}" for load in CARRIED)))}

One bandwidth for both workloads is out: it gives lpld {slow:.0%} of its transfer at any load. A serial hand-over \
fits both if lpld ran at between 0.15 and 0.2 of prefill capacity, and decode admission if at about 0.7, with a \
queue four times the published one. The rates are not published.

The same values at the workloads without a published transfer (P95 TTFT in s, execution's and the transfer's share):

{table(other_rows(), ("mechanism", *others))}

No mechanism meets them all with one value: slow copies are nearest at hpld, furthest at bursty, and short of lpld at \
every load; serial hand-overs and decode admission come near bursty in both figures, perhaps by accident, and miss \
hpld. Each of these depends on rates and outputs that are not published. For lphd there is no figure to compare with.
"""
