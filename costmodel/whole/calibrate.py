"""Stacks from whole runs: fitted to half of the configurations of each engine, version and GPU, tried on the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import InputError
from ..inputs.model import Model
from ..inputs.stack import ANY, MEASURES, Measured, Parameters, Stack, StackFit
from .fit import alone, fit_stack
from .predict import Instances, checked, predict
from .runs import Whole, used
from .stacks import software


def possible(runs: Iterable[Whole], instances: Instances) -> tuple[list[Whole], dict[str, int]]:
    """Return the runs that can be priced and that physics allows, and how many were left out for each reason."""
    kept, why = [], dict[str, int]()
    for run in runs:
        try:
            checked(run, predict(run, instances.of(run.setting, None, run.software)))
        except InputError as error:
            why[str(error)] = why.get(str(error), 0) + 1
        else:
            kept.append(run)
    return kept, why


def once(runs: Iterable[Whole]) -> tuple[list[Whole], int]:
    """Return runs in order, of models by one name each, and how many were the same measurement again.

    Tables list one measurement under several names of a model, and more than once: models of the same layers and
    dtype are one, and rows that agree in everything else are, too.
    """
    ordered = sorted(runs, key=_place)
    named: dict[object, Model] = {}
    for run in ordered:
        named.setdefault((run.setting.model.layers, run.setting.model.weight_dtype), run.setting.model)
    found: dict[object, Whole] = {}
    for run in ordered:
        model = named[run.setting.model.layers, run.setting.model.weight_dtype]
        setting = replace(run.setting, model=model)
        key = (run.kind, run.stack, setting.gpu.name, setting.key, run.what, *sorted(run.seconds.items()))
        found.setdefault(key, replace(run, setting=setting))
    return list(found.values()), len(ordered) - len(found)


def _place(run: Whole) -> tuple[str, ...]:
    """Where a run stands in order, whatever that of its table."""
    where = run.setting
    return run.kind, run.stack, where.gpu.name, where.key, str(run.what), str(sorted(run.seconds.items()))


@dataclass(frozen=True)
class Choice:
    """Which configurations are held out, of those in order."""

    said: str
    held_out: Callable[[Sequence[str]], set[str]]


ALTERNATE = Choice("every second configuration held out", lambda keys: set(keys[1::2]))
MIDDLE = Choice("the middle configuration held out", lambda keys: {keys[len(keys) // 2]})


def calibrate_stacks(
    runs: Sequence[Whole],
    instances: Instances,
    names: Mapping[str, str],
    source: str,
    date: str,
    choice: Choice,
) -> list[Stack]:
    """Return a stack for each software of the runs that has two configurations on one GPU.

    ``names``: what a software's file is called where that is not its own name. Runs are :func:`possible` ones.
    """
    found = []
    small = [run for run in runs if used(run, "tpot")]
    for text in sorted({run.stack for run in small}):
        own = [run for run in small if run.stack == text]
        fits = {}
        for gpu in sorted({run.setting.gpu.name for run in own}):
            here = [run for run in own if run.setting.gpu.name == gpu]
            made = _fitted(names.get(text, text), gpu, here, instances, source, choice)
            if made is not None:
                fits[gpu] = made
        if len(fits) > 1:
            fits[ANY] = _for_any(names.get(text, text), fits, own, instances, source)
        if fits:
            engine, version = software(text)
            found.append(Stack(names.get(text, text), engine, version, date, source, dict(fits)))
    found = [_constant_lent(stack, found) for stack in found]
    return [_tried_on_versions(stack, found, small, instances) for stack in found]


def _constant_lent(stack: Stack, others: Sequence[Stack]) -> Stack:
    """Return a stack whose fits that saw no TTFT have the middle constant of their engine's other fits."""
    same = [fit for other in others if other.engine == stack.engine for fit in other.fits.values()]
    known = sorted(fit.parameters.request_latency for fit in same if _saw_ttft(fit))
    if not known:
        return stack
    middle = known[len(known) // 2]
    return replace(stack, fits={
        gpu: fit if _saw_ttft(fit) or "tpot" not in fit.errors
        else replace(fit, parameters=replace(fit.parameters, request_latency=middle), lent=True, errors={
            name: error for name, error in fit.errors.items() if name != "ttft"
        })
        for gpu, fit in stack.fits.items()
    })  # fmt: skip


def _saw_ttft(fit: StackFit) -> bool:
    return fit.errors.get("ttft", Measured()).points > 0


def _tried_on_versions(
    stack: Stack, others: Sequence[Stack], runs: Sequence[Whole], instances: Instances
) -> Stack:
    """Return a stack with its errors on what other versions of its engine were fitted to."""
    sizes: dict[str, list[float]] = {}
    for other in others:
        if other.engine == stack.engine and other.name != stack.name:
            for gpu, fit in other.fits.items():
                own = stack.fits.get(gpu) or stack.fits.get(ANY)
                if gpu != ANY and own is not None:
                    there = [r for r in runs if r.setting.gpu.name == gpu and r.setting.key in fit.fitted_on]
                    there = [r for r in there if software(r.stack) == (other.engine, other.version)]
                    for m in MEASURES:
                        sizes.setdefault(m, []).extend(map(abs, errors(own, there, m, instances)))
    means = {m: sum(found) / len(found) for m, found in sizes.items() if found}
    return replace(stack, fits={
        gpu: replace(fit, errors=_with(fit.errors, "versions_log", means)) for gpu, fit in stack.fits.items()
    })  # fmt: skip


def _with(found: Mapping[str, Measured], name: str, means: Mapping[str, float]) -> dict[str, Measured]:
    """Return errors with one more figure in each measure that has it."""
    return {m: replace(e, **{name: means[m]}) if m in means else e for m, e in found.items()}  # type: ignore[arg-type]


def _fitted(
    name: str, gpu: str, runs: Sequence[Whole], instances: Instances, source: str, choice: Choice
) -> StackFit | None:
    keys = sorted({run.setting.key for run in runs})
    if len(keys) < 2:
        return None
    held = choice.held_out(keys)
    seen = [run for run in runs if run.setting.key not in held]
    parameters = fit_stack(seen, instances)
    fit = StackFit(name, gpu, parameters, {}, tuple(key for key in keys if key not in held), source)
    return replace(fit, errors=_errors(fit, runs, instances))


def _for_any(
    name: str, fits: Mapping[str, StackFit], runs: Sequence[Whole], instances: Instances, source: str
) -> StackFit:
    """The fit for other GPUs: to what those of all GPUs saw. Its error is that on each GPU without its own runs."""
    seen = [run for run in runs if run.setting.gpu.name in fits]
    seen = [run for run in seen if run.setting.key in fits[run.setting.gpu.name].fitted_on]
    away: dict[str, list[float]] = {}
    for gpu in fits:
        elsewhere = [run for run in seen if run.setting.gpu.name != gpu]
        lent = StackFit(name, ANY, fit_stack(elsewhere, instances), {}, (), source)
        own = [run for run in runs if run.setting.gpu.name == gpu]
        for measure in MEASURES:
            away.setdefault(measure, []).extend(map(abs, errors(lent, own, measure, instances)))
    parameters = fit_stack(seen, instances)
    keys = tuple(dict.fromkeys(f"{run.setting.gpu.name} {run.setting.key}" for run in seen))
    made = StackFit(name, ANY, parameters, {}, keys, source)
    means = {measure: sum(found) / len(found) for measure, found in away.items() if found}
    return replace(made, errors=_with(_errors(made, seen, instances), "carried_log", means))


def errors(fit: StackFit, runs: Iterable[Whole], measure: str, instances: Instances) -> list[float]:
    """Return log errors of a measure under a fit."""
    stack = alone(fit)
    found = []
    for run in runs:
        if measure in run.seconds and used(run, measure):
            best = predict(run, instances.of(run.setting, stack, run.software))[measure].best
            found.append(math.log(best / run.seconds[measure]))
    return found


def _errors(fit: StackFit, runs: Sequence[Whole], instances: Instances) -> dict[str, Measured]:
    found = {}
    for measure in MEASURES:
        halves = [
            errors(fit, (r for r in runs if (r.setting.key in fit.fitted_on) is seen), measure, instances)
            for seen in (True, False)
        ]
        if fit.gpu == ANY:
            halves = [halves[0] + halves[1], []]
        if halves[0]:
            means = [sum(map(abs, half)) / len(half) if half else None for half in halves]
            found[measure] = Measured(means[0], len(halves[0]), means[1], len(halves[1]))
    return found


def changed(parameters: Parameters) -> dict[str, float]:
    """Return the parameters that are not those of no stack at all."""
    plain = Parameters()
    return {
        name: getattr(parameters, name)
        for name in Parameters.__dataclass_fields__
        if getattr(parameters, name) != getattr(plain, name)
    }
