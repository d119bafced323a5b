"""Start-up logs of vLLM, SGLang and TensorRT-LLM: what ran, with which options, and how much KV it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import shorten
from ..records.flags import SGLANG, VLLM
from ..records.record import Record
from . import wordings
from .arguments import options_of
from .engine_args import state_args
from .sheet import Sheet

FORM = "start-up log"
#: Characters of a line that are looked at: lists of all options are some tens of thousands long.
_LINE = 200_000
_COLOUR = re.compile("\x1b\\[[0-9;]{0,12}m")
#: What several lines of one log must agree on: else it is of several starts.
_ONE = ("model", "engine", "engine_version", "tp", "pp")
#: Values that lines gave, each with the line, by the wording that gave them.
Seen = dict[wordings.Wording, dict[float, str]]
_PATH = "/"
_NAMES = {wordings.VLLM: VLLM, wordings.SGLANG: SGLANG}


def is_log(text: str) -> bool:
    """Say whether a text has a line that only the start of an engine writes."""
    return any(_told(line) for line in _lines(text) if wordings.speaks(line))


def read_startup(text: str, where: str, name: str) -> Record:
    """Return the record of an engine's start. Raises InputError for the lines of two different engines."""
    served = dict[str, str]()
    sheet, seen = Sheet(served, where), Seen()
    for number, line in enumerate(_lines(text), 1):
        if wordings.speaks(line) or "device_name=" in line:
            _read_values(sheet, line, f"line {number}", seen)
            _read_options(sheet, line, f"line {number}", served)
    for wording, values in sorted(seen.items(), key=lambda item: wordings.VALUES.index(item[0])):
        _add_figure(sheet, wording, values)
    if "engine_version" not in sheet.conditions:
        sheet.warn("the log states no engine version")
    engine = sheet.conditions.get("engine", "engine")
    return sheet.record(name, FORM, f"start of {engine} {sheet.conditions.get('engine_version', '')}".strip())


def _lines(text: str) -> Iterator[str]:
    return (_COLOUR.sub("", line[:_LINE]) for line in text.split("\n"))


def _told(line: str) -> bool:
    return any(w.engine and w.holds in line and w.pattern.search(line) for w in wordings.VALUES) or any(
        holds in line and pattern.search(line) for holds, pattern, _ in wordings.OPTIONS
    )


def _read_values(sheet: Sheet, line: str, at: str, seen: Seen) -> None:
    for wording in wordings.VALUES:
        match = wording.pattern.search(line) if wording.holds in line else None
        if match is None:
            continue
        text = match[1].rstrip(".") if wording.unit is None else match[1]
        if wording.name == "hardware":
            text = text.replace("_", " ")
        if wording.engine:
            _state(sheet, "engine", wording.engine, at)
        if wording.unit is None:
            _state(sheet, wording.name, text.replace(",", "") if text[0].isdigit() else text, at)
        else:
            seen.setdefault(wording, {})[float(text.replace(",", ""))] = at
    both = wordings.KEYS_VALUES.search(line)
    if both:
        size = sum(float(part.replace(",", "")) for part in both.groups())
        seen.setdefault(wordings.POOL, {})[round(size, 2)] = at


def _read_options(sheet: Sheet, line: str, at: str, served: dict[str, str]) -> None:
    """State what a line of options says; ``served`` takes the name under which the model is served."""
    for holds, pattern, engine in wordings.OPTIONS:
        match = pattern.search(line) if holds in line else None
        if match:
            args = options_of(line[match.end() :])
            if engine == wordings.VLLM and "model" not in args and args.get("model_tag"):
                args["model"] = args["model_tag"]
            _state(sheet, "engine", engine, at)
            if args.get("served_model_name"):
                served["served_model_name"] = args["served_model_name"]
            inner = Sheet({}, sheet.where)
            state_args(inner, args, _NAMES[engine], at)
            for name, value in inner.conditions.items():
                _state(sheet, name, value, at)
            for problem in inner.problems:
                sheet.note(problem)
            for warning in inner.warnings:
                sheet.warn(warning)
            if holds.startswith("non-default") and args:
                _state(sheet, "engine_flags", shorten_flags(args), at)


def shorten_flags(args: dict[str, str]) -> str:
    """Return options as one text, the longest values by their start."""
    return " ".join(f"{name}={shorten(value)}" for name, value in args.items())


def _state(sheet: Sheet, name: str, value: object, at: str) -> None:
    """State what a line says; a later line counts, except on what one engine cannot have twice."""
    before = sheet.conditions.get(name)
    if name == "model" and before is not None and _PATH in (str(before)[:1], str(value)[:1]):
        # where the weights lie is no other model: the name says more
        value = before if str(value).startswith(_PATH) else value
        sheet.conditions.pop(name)
        before = None
    if name in _ONE and before is not None and str(before) != str(value):
        sheet.note(
            f"{at} says {name} {shorten(str(value))!r}, a line before it {shorten(str(before))!r}: "
            "the log holds several starts, keep one"
        )
        return
    sheet.conditions.pop(name, None)
    sheet.state(name, value, at)


def _add_figure(sheet: Sheet, wording: wordings.Wording, values: dict[float, str]) -> None:
    """Add a figure, the values of several GPUs or engines as a range, unless a better wording gave it."""
    if any(figure.metric == wording.name for figure in sheet.figures.values()):
        return
    low, high, unit = min(values), max(values), wording.unit or ""
    text = f"{low:,.10g} to {high:,.10g} {unit}" if low < high else f"{low:,.10g} {unit}"
    several = f"{len(values)} lines differ" if low < high else None
    sheet.figure(
        wording.name,
        values[low],
        low,
        unit,
        high=high if low < high else None,
        note="; ".join(part for part in (wording.note, several) if part) or None,
        text=text.strip(),
        per_gpu=wording.note == wordings.ONE_GPU,
    )
