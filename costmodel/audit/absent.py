"""What a report does not state, and what artifact would recover it. Nothing of it is ever filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..records import Figure, Record, Stated
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
          lambda r: _has(*_LOADED)(r) and _several(r)),
)  # fmt: skip


def _split(record: Record) -> bool:
    words = " ".join(
        str(record.conditions.get(key, "")) for key in ("topology", "scenario", "strategy", "hardware")
    )
    return bool(re.search(r"(?i)\d+p\s*:?\d+d\b|disagg|prefill \+ ", words))


def _several(record: Record) -> bool:
    """Whether several GPUs, or an unstated number of them, may be laid out in more than one way."""
    machines = [machine_of(record.conditions_of(figure)) for figure in record.figures]
    return any(
        machine.per_prefill is None and (machine.gpus != 1 or machine.presumed) for machine in machines
    )


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


#: Figures of a start-up or a data sheet: no request has run for them.
_AT_REST = ("kv_cache_tokens", "kv_cache_blocks", "kv_pool_bytes", "kv_bytes", "kv_bytes_per_token", "kv_block_bytes",
            "full_length_sequences", "weight_bytes", "link_bandwidth_claimed", "peak_flops_claimed")  # fmt: skip
#: Conditions that such figures depend on; the others are of runs.
_OF_REST = ("model", "hardware", "engine version")


def _asked_for(record: Record, asked: Asked) -> list[Figure]:
    """The figures that a condition decides."""
    return [f for f in record.figures if asked.condition in _OF_REST or f.metric not in _AT_REST]


def _missing(record: Record, asked: Asked) -> Iterator[Absent]:
    figures = _asked_for(record, asked)
    without = [f.name for f in figures if not _states(record.conditions_of(f), asked)]
    if asked.condition == "engine version" and not without:
        yield from _build(record, asked)
        return
    if not without:
        return
    everywhere = len(without) == len(figures)
    reason = "not stated" if everywhere else f"not stated for {len(without)} of {len(figures)} figures"
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
    engine, version = (str(record.conditions.get(key, "")) for key in ("engine", "engine_version"))
    engine = engine if version in engine else f"{engine} {version}"
    if changed is None and not _CHANGED.search(engine):
        return
    what = changed or engine.strip()
    reason = f"the engine is changed ({what}) and no commit, build or container digest of it is stated"
    yield Absent("engine version", asked.recovered_by, True, reason, (), record.name)


def counted(absent: tuple[Absent, ...], records: Sequence[Record] = ()) -> tuple[int, int]:
    """Return how many of the seven conditions no figure of a record states, and how many of them figures depend on."""
    asked = [
        each
        for each in ASKED
        if each.of_the_seven and (not records or any(_asked_for(record, each) for record in records))
    ]
    return len({each.condition for each in absent if each.asked and not each.of}), len(asked)
