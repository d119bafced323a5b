"""Sweeps of recommendations: one deployment's instance kinds a combination, everything else in arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..answer import About
from ..data import is_path
from ..decision.at_once import POINTS
from ..decision.provenance import hardware_sources, held, not_modelled, serving_assumptions
from ..decision.verdict import no_ratio, no_rival
from ..errors import CostmodelError, InputError, unknown
from ..grid.closed import STRATEGIES, ClosedGrid, GridAnswer, GridStrategy
from ..grid.figures import REASONS
from ..grid.points import GridPoints
from ..inputs.workload import LONGEST, Workload
from ..memory.settings import EngineSettings
from ..serving.deployment import FIRST_TOKEN, MOST_INSTANCES, Settings, Topology, parse_topology
from ..serving.scenario import Scenario
from ..workloads import load_workload
from .asked import Answers, Columns, Refused, by_halves, constant, none_of, put, refusal
from .axes import AxisKind, named
from .kinds import (
    CONNECTOR,
    DTYPE,
    EFFICIENCY,
    ENGINE,
    HARDWARE,
    KV_DTYPE,
    LINK,
    MODEL,
    MOST_GPUS,
    MOST_REQUESTS,
    OVERLAP,
    SKEW,
    STACK,
    TP,
    known_model,
    written,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Of the whole point, and of each strategy.
VERDICT = (
    "best",
    "runner_up",
    "margin",
    "margin_reason",
    "threshold_tokens",
    "ideal_s",
    "deflected_local_share",
)
OF_EACH = ("utilisation", "mean_delay_s", "ttft_mean_s", "tpot_mean_s", "reason")
FIGURES = (*VERDICT, *(f"{strategy.name}_{figure}" for strategy in STRATEGIES for figure in OF_EACH))
#: Those that are no numbers.
TEXTS = ("best", "runner_up", *(name for name in FIGURES if name.endswith("_reason")))
_SCENARIO = (
    "model", "hardware", "prefill_hardware", "decode_hardware", "link", "connector", "overlap", "tp", "prefill_tp",
    "decode_tp", "dtype", "kv_dtype", "efficiency", "stack", "expert_skew",
)  # fmt: skip
#: What goes into the grid under its own name; ``rate_per_s`` and ``topology`` go under others.
_NUMBERS = ("cv", "isl", "osl", "cached", "token_budget", "max_seqs", "nics", "control_s")
_KEPT = 8
_TOLD = (
    "verdicts by mean delay in the closed form, without SLOs: goodput and percentiles need costmodel recommend",
    "the best of a sweep is that at the step times predicted: it has no band and is never too_close_to_call, as that "
    "of costmodel recommend may be",
    "the deflected strategy keeps prompts below the threshold that gives the least mean delay, of four",
)
#: How sentences begin that are about a single point.
_OF_A_POINT = "token budget"


def _split(text: str) -> Topology:
    found = parse_topology(text)
    if not found.decode:
        raise InputError(
            f"--topology {text}: a sweep compares pooled and split strategies; write xPyD, such as 1P1D"
        )
    return found


def _workload(name: str) -> Hashable:
    return named(name if is_path(name) else name.lower())


def _first_token(text: str) -> None:
    if text not in FIRST_TOKEN:
        raise InputError(unknown("side", text, FIRST_TOKEN, remedy=f"(one of {', '.join(FIRST_TOKEN)})"))


def _pool(option: str, text: str, tensor: bool) -> AxisKind:
    column = option.lstrip("-").replace("-", "_")
    if tensor:
        return AxisKind(option, column, text, "count", 1, MOST_GPUS)
    return AxisKind(option, column, text, check=HARDWARE.check)


class Recommendations:
    """``costmodel recommend --method closed`` over a grid."""

    name = "recommend"
    figures = FIGURES
    outer = (
        MODEL, HARDWARE,
        _pool("--prefill-hardware", "GPUs of the prefill instances, where they differ.", False),
        _pool("--decode-hardware", "GPUs of the decode instances, where they differ.", False),
        replace(LINK, default="ib-hdr"), CONNECTOR, OVERLAP, TP,
        _pool("--prefill-tp", "Of a prefill instance.", True),
        _pool("--decode-tp", "Of a decode instance.", True),
        DTYPE, KV_DTYPE,
        AxisKind("--first-token", "first_token", "Side of token 1: decode, prefill, recompute.", check=_first_token),
        ENGINE, EFFICIENCY, STACK, SKEW,
        AxisKind("--workload", "workload", "Arrivals and lengths: packaged names or TOML files.", check=load_workload,
                 means=_workload),
    )  # fmt: skip
    inner = (
        AxisKind("--topology", "topology", "Instances as xPyD.", check=_split, default="2P2D", means=_split),
        AxisKind(
            "--token-budget", "token_budget", "All tokens of a mixed step; default 2048.", "token", 1, LONGEST
        ),
        AxisKind(
            "--max-seqs", "max_seqs", "Sequences of an instance; default 256.", "count", 1, MOST_REQUESTS
        ),
        AxisKind(
            "--nics",
            "nics",
            "Ports of an instance that carry the copy; default 1.",
            "count",
            1,
            MOST_INSTANCES,
        ),
        AxisKind("--control", "control_s", "Control time of a hand-over, such as 100ms.", "second", 0, 1e6),
        AxisKind("--cached", "cached", "Prompt tokens in the cache already.", "token", 0, LONGEST),
        AxisKind("--isl", "isl", "Prompt tokens, cached ones included: fixed lengths.", "token", 1, LONGEST),
        AxisKind("--osl", "osl", "Output tokens: fixed lengths.", "token", 1, LONGEST),
        AxisKind("--cv", "cv", "Coefficient of variation of gaps; default 1, Poisson.", "1", 0, 100),
        AxisKind("--rate", "rate_per_s", "Arrival rate, requests/s.", "1/second", 1e-12, 1e9),
    )

    def problems(self, axes: Mapping[str, Any]) -> list[str]:
        """Say what is missing."""
        found = ["a sweep of recommendations needs MODEL"] if "model" not in axes else []
        if "hardware" not in axes and not {"prefill_hardware", "decode_hardware"} <= axes.keys():
            found.append("no GPU: pass --hardware (costmodel show hardware lists the packaged ones)")
        if "workload" not in axes:
            missing = [
                o for o, c in (("--rate", "rate_per_s"), ("--isl", "isl"), ("--osl", "osl")) if c not in axes
            ]
            found += [f"{option} is missing: pass it, or --workload" for option in missing]
        return found

    def answers(self, outer: Mapping[str, Any], inner: Columns, points: int) -> Answers:
        """Return verdicts and figures of strategies on one pair of instance kinds."""
        grid = _grid(tuple(outer.items()), written(outer.values()))
        if isinstance(grid, Refused):
            return none_of(FIGURES, points, grid.reason, TEXTS)
        workload = load_workload(outer["workload"]) if "workload" in outer else None
        bad = inner["cached"] >= inner["isl"] if "cached" in inner and "isl" in inner else None
        if bad is None or not bad.any():
            return _of(grid, inner, workload, points)
        found = none_of(FIGURES, points, "--cached leaves nothing of --isl, which includes it", TEXTS)
        good = {name: column[~bad] for name, column in inner.items()}
        return put(found, ~bad, _of(grid, good, workload, int((~bad).sum())))

    def about(self, row: Mapping[str, Any]) -> About:
        """Return what the figures of a point rest on."""
        given = {name: row[name] for name in ("nics", "control_s") if row.get(name) is not None}
        deployment = replace(_scenario(row), **given).deployment()
        said = (text for text in serving_assumptions(deployment, None) if not text.startswith(_OF_A_POINT))
        cache = held(deployment) if row.get("cached") else "cold cache"
        return About((*_TOLD, cache, *said), hardware_sources(deployment), not_modelled(deployment))


@lru_cache(maxsize=_KEPT)
def _grid(outer: tuple[tuple[str, Any], ...], when: tuple[int, ...]) -> ClosedGrid | Refused:
    """The closed forms of a combination, traced once in a process; or why it has none."""
    del when
    given = dict(outer)
    try:
        first = {"first_token": given["first_token"]} if "first_token" in given else {}
        deployment = replace(_scenario(given), settings=Settings(**first)).deployment()
        return ClosedGrid(deployment, points=POINTS)
    except CostmodelError as error:
        return refusal(error)


def _scenario(given: Mapping[str, Any]) -> Scenario:
    own = {name: given[name] for name in _SCENARIO if given.get(name) is not None}
    own.setdefault("hardware", own.get("prefill_hardware"))
    own["model"] = known_model(own["model"])
    engine = EngineSettings(engine=given["engine"]) if given.get("engine") else EngineSettings()
    return Scenario(topology="1P1D", engine=engine, **own)


def _of(grid: ClosedGrid, inner: Columns, workload: Workload | None, points: int) -> Answers:
    def ask(part: slice) -> Answers:
        numbers = {name: inner[name][part] for name in _NUMBERS if name in inner}
        if "rate_per_s" in inner:
            numbers["rate"] = inner["rate_per_s"][part]
        numbers["prefill"], numbers["decode"] = _instances(inner["topology"][part])
        return _columns(grid.evaluate(GridPoints(**numbers, workload=workload)))

    return by_halves(FIGURES, slice(0, points), ask, TEXTS)


def _instances(topologies: Array) -> tuple[Array, Array]:
    """Prefill and decode instances of topologies."""
    import numpy as np

    texts = topologies.tolist()
    known = {text: _split(text) for text in set(texts)}
    pairs = np.array([(known[text].prefill, known[text].decode) for text in texts], dtype=np.int64)
    return pairs[:, 0], pairs[:, 1]


def _columns(answer: GridAnswer) -> Answers:
    """Columns of a grid's answer; a point is refused where no strategy has a mean delay."""
    import numpy as np

    names = np.array([*(strategy.name for strategy in answer.strategies), None], dtype=object)  # -1: none
    said = np.array(REASONS, dtype=object)
    deflected = answer.strategies[-1]
    columns = {
        "best": names[answer.best],
        "runner_up": names[answer.runner_up],
        "margin": answer.margin,
        "margin_reason": _no_margin(answer),
        "threshold_tokens": answer.threshold,
        "ideal_s": answer.ideal_s,
        "deflected_local_share": deflected.local_share,
    }
    for strategy in answer.strategies:
        columns |= {f"{strategy.name}_{figure}": getattr(strategy, figure) for figure in OF_EACH[:-1]}
        columns[f"{strategy.name}_reason"] = said[strategy.reason]
    none = answer.best < 0
    reasons = constant("", len(none))
    reasons[none] = _why(answer.strategies, none)
    return Answers({name: columns[name] for name in FIGURES}, reasons)


def _no_margin(answer: GridAnswer) -> Array:
    """Sentences on points that have a best strategy and no margin; "" for all others."""
    import numpy as np

    stable = np.array([strategy.stable for strategy in answer.strategies])
    stable[-1] &= answer.strategies[-1].local_share > 0  # else it is plain disaggregation
    delays = np.array([strategy.mean_delay_s for strategy in answer.strategies])
    reasons = constant("", len(answer.best))
    for place in np.flatnonzero((answer.best >= 0) & np.isnan(answer.margin)).tolist():
        if answer.runner_up[place] < 0:
            reasons[place] = no_rival(int(stable[:, place].sum()), "mean_delay")
        else:
            reasons[place] = no_ratio(float(delays[answer.best[place], place]))
    return reasons


def _why(strategies: tuple[GridStrategy, ...], none: Array) -> Array:
    """Sentences on points where no strategy has a mean delay: one for all, or each one's."""
    import numpy as np

    codes = np.stack([strategy.reason[none] for strategy in strategies], axis=-1)
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    told = [_sentence([strategy.name for strategy in strategies], row) for row in distinct.tolist()]
    return np.array(told, dtype=object)[place.ravel()]


def _sentence(names: list[str], codes: list[int]) -> str:
    if len(set(codes)) == 1:
        return f"every strategy: {REASONS[codes[0]]}"
    return "; ".join(f"{name}: {REASONS[code]}" for name, code in zip(names, codes))


QUESTION = Recommendations()
