"""Claimed peaks against the GPU's own: links one way, dense products, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...inputs.hardware import DTYPES, Gpu, gpu_names, load_gpu
from ...inputs.link import link_names, load_link
from ...records import Figure
from ...units import format_si
from ..case import Case, numeric
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, not_computable
from ..runs import named
from ..subject import Subject, Unknown

LINK, PEAK, MEMORY, BANDWIDTH = "claimed_link", "claimed_peak", "claimed_memory", "claimed_bandwidth"
#: Links are quoted with and without their encoding (PCIe 4 x16: 32 and 31.5 GB/s), peaks to three digits.
_SAME_LINK, _SAME_PEAK = 0.025, 0.01
#: Memory is quoted nominal, visible, and in GB where GiB are meant.
_SAME_MEMORY = 0.08
#: Memory bandwidth is rounded by its makers to two digits.
_SAME_BANDWIDTH = 0.03
_KINDS = {"nvlink_bandwidth": r"nvlink|nvswitch", "pcie_bandwidth": r"pci"}
_DENSE = ("bf16", "fp16", "fp8", "fp4", "int8")


class Claim(NamedTuple):
    """A claimed value in SI, the figures it stands for (none: a condition), and the words around it."""

    value: float
    of: tuple[str, ...]
    words: str
    subject: Subject


def _claims(case: Case, metric: str, condition: str) -> Iterator[Claim]:
    """Figures of a metric, then the condition of the same meaning, each value once."""
    for run, figure in case.each(metric):
        words = f"{figure.name} {figure.note or ''} {run.text('link')} {figure.conditions.get('link', '')}"
        yield Claim(figure.value, (figure.name,), words.lower(), case.subject(run, figure))
    for value, figures in _stating(case, condition).items():
        words = str(case.record.conditions_of(figures[0]).get("link", ""))
        yield Claim(value, named(figures), words.lower(), _subject(case, figures[0]))


def _stating(case: Case, condition: str) -> dict[float, list[Figure]]:
    """The values that a condition has, and the figures that each holds for."""
    found: dict[float, list[Figure]] = {}
    for figure in case.record.figures:
        value = numeric(case.record.conditions_of(figure).get(condition))
        if value:
            found.setdefault(value, []).append(figure)
    return found


def _subject(case: Case, figure: Figure) -> Subject:
    run = next(run for run in case.runs if figure in run.figures)
    return case.subject(run, figure)


def check_links(case: Case) -> Iterator[Finding]:
    """Compare a claimed bandwidth with the links of the GPU and with the link that it names, both one way."""
    for claim in _claims(case, "link_bandwidth_claimed", "link_bandwidth"):
        text = format_si(claim.value, "byte/second")
        try:
            own, of_gpu = _own_links(claim)
        except Unknown as why:
            yield not_computable(LINK, claim.of, f"a link of {text}", str(why))
            continue
        yield _link(claim, text, own, of_gpu)


def _own_links(claim: Claim) -> tuple[dict[str, float], bool]:
    """Links that a claim may be about, byte/s one way, and whether they are the GPU's. Raises Unknown for none."""
    packaged = _packaged(claim.words)
    if packaged:
        return packaged, False
    gpu = claim.subject.gpu
    kinds = [kind for kind, pattern in _KINDS.items() if re.search(pattern, claim.words)]
    if not kinds and re.search(r"ib\b|infiniband|roce|ethernet|efa|gb/s|gbps|nic", claim.words):
        raise Unknown(f"no packaged link is called {claim.words.strip()!r} (costmodel show hardware)")
    found = {kind: gpu.values[kind].value for kind in kinds or _KINDS if kind in gpu.values}
    if not found:
        raise Unknown(f"{gpu.name} has no {' or '.join(kinds or _KINDS)}: {_absent(gpu, kinds)}")
    return {f"{_short(kind)} of {gpu.name}": value for kind, value in found.items()}, True


def _absent(gpu: Gpu, kinds: list[str]) -> str:
    return "; ".join(gpu.absent[kind] for kind in kinds or _KINDS if kind in gpu.absent)


def _short(kind: str) -> str:
    return "NVLink" if kind.startswith("nvlink") else "PCIe"


def _packaged(words: str) -> dict[str, float]:
    """The packaged links that words name: "ib-hdr", "InfiniBand HDR", "NVLink 4", "PCIe 5"."""
    folded = re.sub(r"[\s_.-]+", "", words.lower())
    found = {}
    for name in link_names():
        bare = name.removesuffix("-x16")
        family, _, member = bare.partition("-")
        spelt = [bare.replace("-", "")]
        spelt += [f"infiniband{member}", f"{member}infiniband"] if family == "ib" else []
        generation = re.fullmatch(r"(nvlink|pcie)(\d)", bare)
        spelt += [f"{generation[1]}gen{generation[2]}"] if generation else []
        if re.search(rf"({'|'.join(spelt)})(?!\d)", folded):
            link = load_link(name)
            found[link.title] = link.bandwidth_bytes_per_s
    return found


def _link(claim: Claim, text: str, own: Mapping[str, float], of_gpu: bool) -> Finding:
    told = "; ".join(f"{name}: {format_si(value, 'byte/second')} one way" for name, value in own.items())
    for factor, id_, grade, what in (
        (1.0, LINK, HOLDS, "one way"),
        (2.0, "both_directions", INCONSISTENT, "both directions of {}, not one: twice what a copy can use"),
        (8.0, "bits_as_bytes", INCONSISTENT, "gigabits of {} as gigabytes: eight times its bandwidth"),
    ):
        for name, value in own.items():
            if abs(claim.value / value / factor - 1) <= _SAME_LINK:
                said = (
                    f"a link of {text} is {what.format(name)}"
                    if factor > 1
                    else f"a link of {text} is {name}"
                )
                return Finding(id_, grade, claim.of, said, f"{text} / {factor:g} against {told}")
    if of_gpu and claim.value > max(own.values()):
        others = _others(claim.value, claim.subject.gpu)
        if others or len(own) == 1:
            whose = f"that is {others}" if others else "no packaged GPU has it"
            said = f"no link of {claim.subject.gpu.name} carries {text} one way; {whose}"
            return Finding("link_of_another_gpu", IMPOSSIBLE, claim.of, said, f"{text} against {told}")
    return not_computable(LINK, claim.of, f"a link of {text}", f"it is none of {told}")


def _others(value: float, gpu: Gpu) -> str:
    """Which links of other GPUs have a bandwidth, in words."""
    found: dict[str, list[str]] = {}
    for name in gpu_names():
        other = load_gpu(name)
        for kind in _KINDS:
            known = other.values.get(kind) if other.name != gpu.name else None
            if known and abs(value / known.value - 1) <= _SAME_LINK:
                found.setdefault(_short(kind), []).append(other.name)
    return " and ".join(f"{kind} of {', '.join(names)}" for kind, names in found.items())


def check_peaks(case: Case) -> Iterator[Finding]:
    """Compare a claimed peak rate with the GPU's dense peaks: twice one of them counts zeros that sparsity skips."""
    for claim in _claims(case, "peak_flops_claimed", "peak_flops"):
        text = format_si(claim.value, "flop/second", 4)
        try:
            gpu, dtype = claim.subject.gpu, claim.subject.stated_dtype
        except Unknown as why:
            yield not_computable(PEAK, claim.of, f"a peak of {text}", str(why))
            continue
        dense = {d: gpu.values[f"peak_{d}"].value for d in DTYPES if f"peak_{d}" in gpu.values}
        if gpu.generation == "not packaged" or not dense:
            reason = f"no peak of {gpu.name} is known but the claimed one"
            yield not_computable(PEAK, claim.of, f"a peak of {text}", reason)
        else:
            yield _peak(claim, text, gpu.name, dense, dtype if dtype in dense else None)


def _peak(claim: Claim, text: str, gpu: str, dense: Mapping[str, float], dtype: str | None) -> Finding:
    same = [d for d, peak in dense.items() if abs(claim.value / peak - 1) <= _SAME_PEAK]
    twice = [d for d in _DENSE if d in dense and abs(claim.value / dense[d] / 2 - 1) <= _SAME_PEAK]
    rates = ", ".join(f"{d} {format_si(peak, 'flop/second', 4)}" for d, peak in dense.items())
    told = f"{text} against dense peaks of {gpu}: {rates}"
    if dtype in same or (same and not twice):
        which = dtype if dtype in same else ", ".join(same)
        return Finding(PEAK, HOLDS, claim.of, f"{text} is the dense peak of {gpu} in {which}", told)
    if twice and (dtype in twice or not same):
        which = dtype if dtype in twice else twice[0]
        rather = f", or the dense one of {', '.join(same)}, which the weights are not in" if same else ""
        said = f"{text} is twice the dense {which} peak of {gpu}: the one with sparsity{rather}"
        return Finding("sparse_peak", INCONSISTENT, claim.of, said, told)
    if twice:
        both = f"the dense peak of {gpu} in {', '.join(same)} and twice that in {', '.join(twice)}"
        said = f"{text} is {both}: no dtype is stated"
        return Finding("sparse_peak", SUSPICIOUS, claim.of, said, told)
    most = dense[dtype] if dtype else max(dense.values())
    if claim.value > most * (1 + _SAME_PEAK):
        said = f"{text} is {claim.value / most:.3g} times the dense {dtype or 'highest'} peak of {gpu}"
        return Finding(PEAK, INCONSISTENT, claim.of, said, told)
    return not_computable(
        PEAK, claim.of, f"a peak of {text}", f"it is none of the dense peaks of {gpu}: {rates}"
    )


def check_bandwidth_stated(case: Case) -> Iterator[Finding]:
    """Compare a stated memory bandwidth with the GPU's: that of another GPU is none of this one's."""
    for stated, figures in _stating(case, "memory_bandwidth").items():
        gpu = _subject(case, figures[0]).machine.gpu
        if gpu is None or gpu.generation == "not packaged" or "memory_bandwidth" not in gpu.values:
            continue
        own, of = gpu.get("memory_bandwidth"), named(figures)
        told = f"{format_si(stated, 'byte/second')} against {format_si(own, 'byte/second')} of {gpu.name}"
        if abs(stated / own - 1) <= _SAME_BANDWIDTH:
            yield Finding(BANDWIDTH, HOLDS, of, f"the stated memory bandwidth is that of {gpu.name}", told)
            continue
        others = [
            name
            for name in gpu_names()
            if (known := load_gpu(name).values.get("memory_bandwidth"))
            and abs(stated / known.value - 1) <= _SAME_PEAK
        ]
        whose = f": it is that of {', '.join(others)}" if others else ""
        said = f"the stated memory bandwidth is {stated / own:.3g} times that of {gpu.name}{whose}"
        yield Finding(BANDWIDTH, INCONSISTENT if stated > own else SUSPICIOUS, of, said, told)


def check_memory_stated(case: Case) -> Iterator[Finding]:
    """Compare a stated memory with the GPU's: 80 GB is the usual word for 80 GiB, 40 GB is another board."""
    for stated, figures in _stating(case, "memory").items():
        gpu = _subject(case, figures[0]).machine.gpu
        if gpu is None or gpu.generation == "not packaged":
            continue
        own, of = gpu.get("memory"), named(figures)
        told = f"{format_si(stated, 'byte')} against {format_si(own, 'byte', binary=True)}"
        if abs(stated / own - 1) <= _SAME_MEMORY:
            yield Finding(MEMORY, HOLDS, of, f"the stated memory is that of {gpu.name}", told)
        else:
            said = (
                f"the stated memory is {stated / own:.3g} times that of {gpu.name}: another board, or several"
            )
            yield Finding(MEMORY, INCONSISTENT, of, said, told)
