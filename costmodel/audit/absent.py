"""What a report does not state, and what artifact would recover it. Nothing of it is ever filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..records import Record, Stated
from ..records.machine import machine_of


@dataclass(frozen=True)
class Absent:
    """A condition that a report does not state, for all figures or those named; ``reason``: why it counts as absent."""

    condition: str
    recovered_by: str
    asked: bool
    reason: str
    of: tuple[str, ...] = ()
    record: str = ""


@dataclass(frozen=True)
class Asked:
    """A condition of the audit: any of ``keys`` states it; ``when``: asked only where figures or conditions need it."""

    condition: str
    keys: tuple[str, ...]
    recovered_by: str
    of_the_seven: bool = True
    when: Callable[[Record], bool] = lambda record: True


def _has(*metrics: str) -> Callable[[Record], bool]:
    return lambda record: any(
        f.metric in metrics or any(m in f.metric for m in metrics) for f in record.figures
    )


_LOADED = ("ttft", "tpot", "itl", "e2e", "throughput", "goodput", "attainment")

ASKED = (
    Asked("model", ("model",), "the model id in the raw benchmark log, or the server's start-up command"),
    Asked("hardware", ("hardware", "prefill_hardware", "decode_hardware"),
          "nvidia-smi output, the cluster's description, or the instance type of the nodes"),
    Asked("batch or concurrency", ("batch", "concurrency", "arrival_rate", "burst"),
          "the benchmark's command line (--max-concurrency, --request-rate), or the raw log with a row a request"),
    Asked("input length", ("input_tokens", "input_length"),
          "the trace or dataset, or the raw harness log with prompt tokens of each request"),
    Asked("output length", ("output_tokens", "output_length"),
          "the raw harness log with output tokens of each request, or the benchmark's --output-len and ignore-eos"),
    Asked("engine version", ("engine_version", "engine_build"),
          "the container digest or commit of the build, or the version line of the server's log"),
    Asked("warm-up", ("warmup",), "the harness's log from its start, or its command line (--num-warmups)"),
    Asked("scenario", ("scenario",),
          "the harness's configuration: MLPerf scenario, or open or closed loop", of_the_seven=False),
)  # fmt: skip

#: Asked besides, where the figures depend on it.
BESIDES = (
    Asked("link and its bandwidth", ("link", "link_bandwidth"),
          "the topology of the nodes (ibstat, nvidia-smi topo -m) and the connector's configuration", False,
          lambda r: (_has("kv_transfer", "handover", "transfer")(r) or _split(r)) and not _wired(r)),
    Asked("arrival process", ("arrival_process",),
          "the benchmark's command line (--request-rate, --burstiness), or arrival times in the raw log", False,
          _has(*_LOADED)),
    Asked("cache state", ("cache_state", "cached_tokens", "cached_share"),
          "the server's command line (prefix caching) and its prefix-cache hit counters", False,
          _has("ttft", "prefill", "throughput")),
    Asked("SLO", ("slo", "slo_ttft", "slo_tpot"), "the text or script that defines attainment", False,
          _has("goodput", "attainment")),
    Asked("first-token side", ("first_token", "ttft_from"),
          "the router's and the proxy's log: who sends token 1, and from when TTFT counts", False,
          lambda r: _has("ttft")(r) and _split(r)),
    Asked("topology", ("topology", "tp", "prefill_tp", "decode_tp", "gpus", "instances"),
          "the start-up command of each instance (--tensor-parallel-size, roles)", False,
          lambda r: _has(*_LOADED)(r) and machine_of(r.conditions).per_prefill is None),
)  # fmt: skip


def _split(record: Record) -> bool:
    words = " ".join(
        str(record.conditions.get(key, "")) for key in ("topology", "scenario", "strategy", "hardware")
    )
    return bool(re.search(r"(?i)\d+p\s*:?\d+d\b|disagg|prefill \+ ", words))


def _wired(record: Record) -> bool:
    """Whether the words on hardware name a wire and its rate."""
    return bool(
        re.search(
            r"[Nn][Vv][Ll]ink|[Cc]onnect[Xx]|\d\s*G(bps|b/s|bE|bit)",
            str(record.conditions.get("hardware", "")),
        )
    )


def absent_of(record: Record) -> tuple[Absent, ...]:
    """Return what a record does not state: of the seven conditions and the scenario, then of what else it needs."""
    found = [each for asked in ASKED for each in _missing(record, asked)]
    found += [each for asked in BESIDES if asked.when(record) for each in _missing(record, asked)]
    return tuple(found)


def _missing(record: Record, asked: Asked) -> Iterator[Absent]:
    without = [f.name for f in record.figures if not _states(record.conditions_of(f), asked)]
    if asked.condition == "engine version" and not without:
        yield from _build(record, asked)
        return
    if not without:
        return
    everywhere = len(without) == len(record.figures)
    reason = "not stated" if everywhere else f"not stated for {len(without)} of {len(record.figures)} figures"
    yield Absent(asked.condition, asked.recovered_by, asked.of_the_seven, reason,
                 () if everywhere else tuple(without), record.name)  # fmt: skip


def _states(conditions: Mapping[str, Stated], asked: Asked) -> bool:
    return any(key in conditions for key in asked.keys)


_CHANGED = re.compile(
    r"(?i)\b(modified|patched|prototype|fork(ed)?|custom|plus|with the|with our|branch)\b|\+"
)


def _build(record: Record, asked: Asked) -> Iterator[Absent]:
    """A version says what ran where the engine is a release; a changed engine needs its build."""
    if "engine_build" in record.conditions:
        return
    changed = record.conditions.get("engine_changes")
    engine = f"{record.conditions.get('engine', '')} {record.conditions.get('engine_version', '')}"
    if changed is None and not _CHANGED.search(engine):
        return
    what = changed or engine.strip()
    reason = f"the engine is changed ({what}) and no commit, build or container digest of it is stated"
    yield Absent("engine version", asked.recovered_by, True, reason, (), record.name)


def counted(absent: tuple[Absent, ...]) -> tuple[int, int]:
    """Return how many of the seven conditions no figure of a record states, and seven."""
    seven = [asked.condition for asked in ASKED if asked.of_the_seven]
    return len({each.condition for each in absent if each.asked and not each.of}), len(seven)
