"""Renew the tables of accuracy.md: python docs/validation/accuracy.py FOLDER, which holds the published tables.

Takes a minute.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from stacks import GROUPS
from tabulate import tabulate

from costmodel.inputs.stack import Stack
from costmodel.measured.errors import ErrorRow
from costmodel.measured.points import Given
from costmodel.measured.table import read_table
from costmodel.questions.validate import ask_validate
from costmodel.whole.calibrate import Choice, calibrate_stacks, once, possible
from costmodel.whole.compare import Pair, dense
from costmodel.whole.predict import Instances, predict
from costmodel.whole.read import read_whole
from costmodel.whole.runs import Whole, used
from costmodel.whole.stacks import known_stacks

PAGE = Path(__file__).with_name("accuracy.md")
FIGURES = ("held out", "median", "P90", "bias", "in band", "band", "n")
#: What the first table shows: words, kind of validation, regime, and what is aimed at, percent.
AIMS = (
    ("decode step, TP not fitted", "step", "decode", 8),
    ("prefill step, TP not fitted", "step", "prefill", 12),
    ("TPOT, up to 8 clients, dense", "end_to_end", "tpot, concurrency <= 8, dense", 6),
    ("TPOT, up to 8 clients, all", "end_to_end", "tpot, concurrency <= 8", 15),
    ("TTFT, up to 4 clients, dense", "end_to_end", "ttft, concurrency <= 4, dense", 20),
    ("TTFT, up to 4 clients, all", "end_to_end", "ttft, concurrency <= 4", 35),
    ("TPOT, vLLM 0.19 saturated, not fitted", "end_to_end", "tpot, open loop", 20),
    ("TTFT, vLLM 0.19 saturated, not fitted", "end_to_end", "ttft, open loop", 35),
)
OPERATORS = (
    "gemm", "layer_ops", "elementwise", "context_attention", "generation_attention", "chunked_attention",
    "mixed_attention", "mla", "moe", "collective",
)  # fmt: skip


def percent(share: float, sign: str = "") -> str:
    """A share in percent."""
    return f"{100 * share:{sign}.1f}"


def figures(row: ErrorRow) -> tuple[str, ...]:
    """Errors and coverage of a row, in percent, and the median factor from the best estimate to its edge."""
    inside = "-" if row.covered is None else f"{row.covered:.0%}".replace("%", "")
    sizes = (percent(share) for share in (row.mape, row.median, row.p90))
    width = "-" if row.width is None else f"x {row.width:.2f}"
    return (*sizes, percent(row.bias, "+"), inside, width, f"{row.n:,}")


def shown(rows: Iterable[Sequence[str]], header: Sequence[str]) -> str:
    """A table in markdown."""
    return tabulate(list(rows), header, tablefmt="github", disable_numparse=True)


def aims(rows: Sequence[ErrorRow]) -> str:
    """The figures that were aimed at."""
    found = {(r.kind, r.regime): r for r in rows if r.gpu == "all" and r.split == "held_out"}
    lines = [(said, str(aim), *figures(found[kind, regime])) for said, kind, regime, aim in AIMS]
    return shown(lines, ("mean error, %", "aim", *FIGURES))


def by_stack(rows: Sequence[ErrorRow]) -> str:
    """The held-out figures of each software and GPU."""
    regimes = ("decode", "prefill", "tpot, concurrency <= 8", "ttft, concurrency <= 4")
    lines = [
        (row.stack, row.gpu, row.regime, *figures(row))
        for row in rows
        if row.gpu != "all" and row.split == "held_out" and row.regime in regimes
    ]
    return shown(lines, ("software", "GPU", "figure", *FIGURES))


def operators(folder: Path) -> str:
    """Held-out errors and coverage by kind of operator, over GPUs and stacks that have fits of their own."""
    rows = ask_validate(measurements=folder).rows
    lines = []
    for kind in OPERATORS:
        own = [r for r in rows if r.kind == kind and r.regime == "all"]
        fitted = {(r.gpu, r.stack) for r in own if r.split == "fitted"}
        held = [r for r in own if r.split == "held_out" and (r.gpu, r.stack) in fitted]
        count = sum(r.n for r in held)
        means = [sum(r.n * value for r, value in zip(held, values)) / count for values in (
            [r.mape for r in held], [r.covered or 0.0 for r in held],
        )]  # fmt: skip
        lines.append((kind, percent(means[0]), f"{100 * means[1]:.0f}", f"{count:,}"))
    return shown(lines, ("operator", "held out", "in band", "n"))


def runs_of(folder: Path, files: Sequence[str]) -> list[Whole]:
    """The runs of some tables that can be priced."""
    found = [run for file in files for run in read_whole(read_table(folder / file), Given())[0]]
    return once(possible(found, Instances())[0])[0]


def crossed(folder: Path) -> str:
    """Each TP of the steps left out in turn, and loops with the other half held out under the packaged bands."""
    lines = []
    (loops, *_), (steps, *_) = GROUPS
    runs = runs_of(folder, steps)
    for tp in (2, 4, 8):
        choice = Choice("", lambda keys, tp=tp: {key for key in keys if key.endswith(f"TP{tp}")})
        lines += _tried(runs, choice, f"steps, TP{tp} held out")
    lines += _tried(
        runs_of(folder, loops), Choice("", lambda keys: set(keys[::2])), "loops, the other half held out"
    )
    return shown(lines, ("trial", "figure", "mean error, %", "in band", "n"))


def _tried(runs: Sequence[Whole], choice: Choice, said: str) -> list[tuple[str, ...]]:
    """Fit anew, keep the widths that the packaged stacks have from their own held-out halves, and compare."""
    instances = Instances()
    made = calibrate_stacks(runs, instances, {}, "", "", choice)
    pairs: list[Pair] = []
    for stack in made:
        stack = _with_packaged_errors(stack)
        own = [r for r in runs if (r.stack == "not stated" or r.stack == _software(stack))]
        for run in own:
            fit = stack.fits.get(run.setting.gpu.name)
            if fit is not None and run.setting.key not in fit.fitted_on:
                found = predict(run, instances.of(run.setting, stack, run.software))
                pairs += [Pair(run, m, run.seconds[m], found[m], False, "") for m in found if used(run, m)]
    lines = []
    for measure in dict.fromkeys(pair.measure for pair in pairs):
        chosen = [pair for pair in pairs if pair.measure == measure]
        mean = float(np.mean([abs(pair.error) for pair in chosen]))
        inside = float(np.mean([pair.covered for pair in chosen]))
        lines.append((said, measure, percent(mean), f"{100 * inside:.0f}", f"{len(chosen):,}"))
    return lines


def _software(stack: Stack) -> str:
    return stack.engine if stack.version == "not stated" else f"{stack.engine}-{stack.version}"


def _with_packaged_errors(stack: Stack) -> Stack:
    packaged = next(s for s in known_stacks() if (s.engine, s.version) == (stack.engine, stack.version))
    fits = {gpu: replace(fit, errors=packaged.fits[gpu].errors) for gpu, fit in stack.fits.items()}
    return replace(stack, name=f"{stack.name} anew", fits=fits)


def alone(folder: Path) -> str:
    """Decode steps of operators alone, without a stack, against TPOT of loops of up to 8 clients."""
    runs = [run for run in runs_of(folder, GROUPS[0][0]) if used(run, "tpot")]
    instances, lines = Instances(), []
    pairs = []
    for run in runs:
        found = predict(run, instances.of(run.setting, None, run.software))["tpot"]
        pairs.append(Pair(run, "tpot", run.seconds["tpot"], found, False, ""))
    for said, chosen in (
        ("dense", [p for p in pairs if dense(p.run)]), ("MoE", [p for p in pairs if not dense(p.run)]), ("all", pairs),
    ):  # fmt: skip
        mean, bias = np.mean([abs(p.error) for p in chosen]), np.mean([p.error for p in chosen])
        inside = np.mean([p.covered for p in chosen])
        lines.append(
            (said, percent(float(mean)), percent(float(bias), "+"), f"{100 * inside:.0f}", f"{len(chosen):,}")
        )
    return shown(lines, ("models", "mean error, %", "bias", "in band", "n"))


def main() -> None:
    """Put every table under its heading."""
    folder = Path(sys.argv[1])
    rows = [
        *ask_validate("step", measurements=folder).rows,
        *ask_validate("end_to_end", measurements=folder).rows,
    ]
    page = PAGE.read_text()
    for heading, text in (
        ("What was aimed at", aims(rows)), ("Tried again", crossed(folder)), ("Operators alone", alone(folder)),
        ("Coverage by kind of operator", operators(folder)), ("By software and GPU", by_stack(rows)),
    ):  # fmt: skip
        page = re.sub(
            rf"(?m)(^## {heading}\n\n)(\|.*\n)+", lambda found, text=text: f"{found[1]}{text}\n", page
        )
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
