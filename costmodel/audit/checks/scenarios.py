"""MLPerf's two scenarios of one system: limits on latency leave a server no more than it does without them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...records import Figure
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding
from ..runs import named

CHECK = "server_above_offline"
_RATES = ("output_throughput", "total_throughput", "throughput", "request_throughput")
#: Conditions that a scenario brings with it.
_WITH_IT = (
    "scenario",
    "slo",
    "slo_ttft",
    "slo_tpot",
    "arrival_process",
    "arrival_rate",
    "concurrency",
    "requests",
)


def check_scenarios(case: Case) -> Iterator[Finding]:
    """Compare each rate under Server with the same one under Offline."""
    groups: dict[object, dict[str, Figure]] = {}
    for _, figure in case.each(*_RATES):
        stated = case.record.conditions_of(figure)
        found = re.search(r"(?i)\b(offline|server)\b", str(stated.get("scenario", "")))
        if found:
            rest = frozenset((key, value) for key, value in stated.items() if key not in _WITH_IT)
            key = (figure.metric, figure.statistic, figure.per_gpu, rest)
            groups.setdefault(key, {}).setdefault(found[1].lower(), figure)
    for both in groups.values():
        if len(both) == 2 and both["offline"].value > 0:
            yield _compared(both["server"], both["offline"])


def _compared(server: Figure, offline: Figure) -> Finding:
    share, of = server.value / offline.value, named((server, offline))
    told = f"{server.text} / {offline.text} = {share:.3g}"
    if share <= 1:
        return Finding(CHECK, HOLDS, of, f"Server reaches {share:.0%} of Offline", told)
    said = f"Server, with its limits on latency, is {share:.3g} times Offline, which has none and is not at its best"
    return Finding(CHECK, SUSPICIOUS, of, said, told)
