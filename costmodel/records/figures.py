"""The metric meant by a name as reports write it: "P99 TPOT (ms)" is a metric, a statistic and a unit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .amounts import apart, spelt
from .amounts import in_si as in_si
from .vocabulary import METRICS

_STATISTIC = (
    r"mean|avg|average|median|std|min|max|minimum|maximum|p\d{1,2}(?:[._]\d+)?"
    r"|\d{1,2}(?:th|st|nd|rd)(?:_percentile)?"
)
_PART = re.compile(rf"({_STATISTIC})_(.+)|(.+?)_({_STATISTIC})")
_SUFFIXES = (
    ("_ms", "ms"), ("_us", "us"), ("_s", "s"), ("_seconds", "s"), ("_sec", "s"), ("_gib", "GiB"), ("_pct", "%"),
    ("_percent", "%"),
)  # fmt: skip
_NAMES = {name: name for name in METRICS} | {
    alias: name for name, metric in METRICS.items() for alias in metric.aliases
}
_WORDS = {"avg": "mean", "average": "mean", "median": "p50", "minimum": "min", "maximum": "max"}
#: A metric called by its unit ("output tokens per second", "req/s"): what is counted, and the rest of the name.
_RATE = re.compile(
    r"(?:(?P<of>.+)_)?(?:(?P<tokens>tok(?:en)?s?|t)|req(?:uest)?s?|queries)(?:_?/_?|_per_)s(?:ec(?:ond)?s?)?"
)
_SHORT_RATE = re.compile(r"(?:(?P<of>.+)_)?(?:(?P<tokens>tps)|rps|qps)")
#: What checks read out of a name themselves: a share by its parts, a gain by what it is of.
_CLAIMS = re.compile(r".+_share_of_.+|.+_(?:ratio|speedup|reduction|improvement|increase|change)")


class Meant(NamedTuple):
    """A metric's name as known (or as written), its dimension (None: not known), and what else the name says.

    ``unit`` and ``statistic`` that stand in it, and ``each``: per "gpu", "node" or "user".
    """

    metric: str
    dimension: str | None
    statistic: str | None
    unit: str | None
    each: str | None = None

    @property
    def checked(self) -> bool:
        """Whether a check may know what to do with it."""
        return self.metric in METRICS or bool(_CLAIMS.fullmatch(self.metric))


@lru_cache(maxsize=4096)
def meant(written: str) -> Meant:
    """Return what a metric's name means: ``p95_ttft_ms`` and "P95 TTFT (ms)" are the p95 of TTFT, in ms.

    >>> meant("Total tput/GPU")
    Meant(metric='total_throughput', dimension='token/second', statistic=None, unit=None, each='gpu')
    """
    name, unit, statistic, each = _without_brackets(written)
    while name not in _NAMES:
        before = name
        name, found = apart(name)
        each = found or each
        name, unit = _called_by_unit(name, unit)
        suffix, said = next(((s, u) for s, u in _SUFFIXES if name.endswith(s)), ("", None))
        if name not in _NAMES:
            name, unit = name.removesuffix(suffix), said or unit
        part = _PART.fullmatch(name)
        if part and name not in _NAMES:
            statistic, name = statistic_of(part[1] or part[4]), part[2] or part[3]
        if name == before:
            break
    if name in _NAMES:
        known = _NAMES[name]
        return Meant(known, METRICS[known].dimension, statistic, unit, each)
    if "share" in name or name.endswith(("_fraction", "_rate_share")):
        return Meant(name, "1", statistic, unit, each)
    return Meant(name, None, statistic, unit, each)


def _without_brackets(written: str) -> tuple[str, str | None, str | None, str | None]:
    """A name in small letters, and the unit, statistic and divisor that its brackets hold; other brackets stay."""
    unit = statistic = each = None
    text = written
    for inner in re.findall(r"[(\[]([^()\[\]]+)[)\]]", written):
        bare, per = apart(inner)
        if re.fullmatch(_STATISTIC, _folded(inner)):
            statistic, kept = statistic_of(inner), ""
        elif in_si(1.0, bare, None)[1] is not None:
            unit, each, kept = spelt(bare), per or each, ""
        else:
            kept = f" {inner} "
        text = text.replace(f"({inner})", kept).replace(f"[{inner}]", kept)
    name = re.sub(r"(?<![a-z])(?:tput|thpt|thput)(?![a-z])", "throughput", _folded(text))
    return re.sub(r"_for_[\d,]+_tokens_per_request$", "", name), unit, statistic, each


def _folded(text: str) -> str:
    return re.sub(r"[\s\-_]+", "_", re.sub(r"(?<=[a-zA-Z])\.", "", text.lower())).strip("_")


def _called_by_unit(name: str, unit: str | None) -> tuple[str, str | None]:
    found = _RATE.fullmatch(name) or _SHORT_RATE.fullmatch(name)
    if found is None:
        return name, unit
    of = f"{found['of']}_" if found["of"] else ""
    if of.endswith("throughput_"):
        return of.rstrip("_"), unit or ("tok/s" if found["tokens"] else "req/s")
    if found["tokens"]:
        return f"{of}throughput", unit or "tok/s"
    return f"{of}request_throughput", unit or "req/s"


def statistic_of(text: str | None) -> str | None:
    """Return a statistic in small letters, the median as p50 and an average as mean; None for none."""
    if text is None or not text.strip():
        return None
    folded = text.strip().lower().rstrip(".")
    if folded[:1].isdigit():
        folded = re.sub(r"_?percentile|th|st|nd|rd", "", folded)
    digits = re.fullmatch(r"p?(\d{1,2}(?:[._]\d+)?)\s*", folded)
    if digits:
        return "p" + digits[1].replace("_", ".")
    return _WORDS.get(folded, folded)
