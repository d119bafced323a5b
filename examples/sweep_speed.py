"""How fast sweeps are: step times and verdicts a second of CPU on one core, beside single answers and peers.

    python examples/sweep_speed.py [PYTHON_OF_THE_PEERS]

The peers are ridgepoint and servcalc (both on PyPI). They run in an environment of their own, whose interpreter is the
argument, or in this one where they are installed; where they are not, the table says so. Takes about two minutes.
examples/sweep_speed.md has what one machine measured.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tabulate import tabulate

from costmodel.decision.at_once import AtOnce
from costmodel.questions.inputs import as_instance
from costmodel.questions.sweep import Sweep, ask_sweep
from costmodel.questions.workload import Changes, choose_workload
from costmodel.serving.deployment import Deployment
from costmodel.serving.instance import InstanceKind
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import StepTimes, analyse_step, step_times
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Rule, RuleKind, deflected
from costmodel.serving.work import Chunk

MODELS = (("meta-llama/Llama-3.1-8B", "h100-sxm"), ("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"))
#: Steps of each phase: about a million points and more.
STEPS: dict[str, dict[str, object]] = {
    "decode": {"batch": "1:256", "context": "1000:33000:4"},
    "prefill": {"isl": "2049:6000", "cached": "0:2048:5"},
    "mixed": {"batch": "1:256", "context": "1024:32768:1024", "chunk": "512,2048", "cached": "0:8192:64"},
}
VERDICTS: dict[str, object] = {
    "link": "ib-hdr", "topology": "1P1D,2P2D,1P3D", "token_budget": "512,2048", "isl": "512:8192:512", "osl": "64,256",
    "cv": "1,2", "rate": "0.5:16:0.25",
}  # fmt: skip
#: How often a sweep is repeated, and for how long single answers are asked; the best and the mean are told.
TIMES, SECONDS = 3, 2.0
PEERS = ("ridgepoint", "servcalc")

#: Asked of the peers' interpreter, with a configuration of Llama-3.1-8B and seconds: what each answers a second of CPU.
ASK_PEERS = r"""
import itertools, json, sys, time
from importlib import import_module
from importlib.metadata import version

config, seconds = sys.argv[1], float(sys.argv[2])

def rate(ask, each):
    ask(0)
    start, asked = time.process_time(), 0
    while time.process_time() - start < seconds:
        ask(asked)
        asked += 1
    return asked * each / (time.process_time() - start)

def ridgepoint(own):
    return rate(lambda n: own.fit("llama-3-8b", "h100-80gb", ctx=1000 + n % 7000, prompt=500, as_json=True), 1)

def servcalc(own):
    from vramcalc.loaders import load_arch
    arch, batches = load_arch(config), tuple(range(1, 257))
    ask = lambda n: own.estimate(arch, "H100 80GB", workload=own.Workload(1000 + n % 7000, 128, batches))
    return rate(ask, len(batches))

found = {}
for name in ("ridgepoint", "servcalc"):
    try:
        own = import_module(name)
    except ImportError:
        found[name] = {"missing": "not installed"}
        continue
    try:
        found[name] = {"version": version(name), "rate": globals()[name](own)}
    except Exception as error:
        found[name] = {"version": version(name), "missing": f"{type(error).__name__}: {error}"}
print(json.dumps(found))
"""


class Line(NamedTuple):
    """A row of the table: answers a second of CPU, and what the sweep of the same kind gives in the same run."""

    what: str
    model: str
    rate: float | None
    sweep: float | None
    remark: str = ""


def best(run: Callable[[], int]) -> float:
    """Answers a second of CPU: the most of some runs. The first, in which functions are traced, is not one of them."""
    run()
    found = 0.0
    for _ in range(TIMES):
        start = time.process_time()
        found = max(found, run() / (time.process_time() - start))
    return found


def single(asks: Iterable[Callable[[], object]]) -> float:
    """Answers a second of CPU where each is asked for alone."""
    asks = iter(asks)
    next(asks)()
    start, asked = time.process_time(), 0
    for ask in asks:
        ask()
        asked += 1
        if time.process_time() - start > SECONDS:
            break
    return asked / (time.process_time() - start)


def count(sweep: Sweep) -> int:
    """Go through a sweep, its columns and all."""
    return sum(len(block["refused"]) for block in sweep)


def rows_of(sweep: Sweep, names: Iterable[str]) -> Iterable[dict[str, Any]]:
    """Some points of a sweep, far from each other."""
    wanted = list(names)
    for block in sweep:
        for place in range(0, len(block["refused"]), 101):
            yield {name: block[name][place].item() for name in wanted}


def steps(model: str, gpu: str) -> list[Line]:
    """Lines of step times."""
    found, kind, name = [], as_instance(model, gpu), model.split("/")[-1]
    for phase, axes in STEPS.items():
        sweep = ask_sweep("step", {"model": model, "hardware": gpu, "phase": phase, **axes})
        many = best(partial(count, sweep))
        alone = single(partial(_step, kind, phase, row) for row in rows_of(sweep, axes))
        found.append(
            Line(f"sweep of {phase} steps", name, many, many, f"{sweep.points:,} points, time and bound")
        )
        found.append(
            Line(f"{phase} steps one by one", name, alone, many, "analyse_step: operators and band, too")
        )
    return found


def written(model: str, gpu: str) -> Line:
    """The line of decode steps that go to a file."""
    axes = {**STEPS["decode"], "context": "1000:33000:32"}
    sweep = ask_sweep("step", {"model": model, "hardware": gpu, "phase": "decode", **axes})
    with TemporaryDirectory() as folder:
        rate = best(lambda: sweep.to_csv(Path(folder) / "steps.csv").points)
    return Line(
        "decode steps to a CSV", model.split("/")[-1], rate, None, f"{sweep.points:,} points, --workers 1"
    )


def _step(kind: InstanceKind, phase: str, row: dict[str, int]) -> object:
    """One step of a sweep."""
    if phase == "decode":
        return analyse_step(kind, batch=row["batch"], context=row["batch"] * row["context"])
    prefix = row["cached"]
    if phase == "prefill":
        return analyse_step(kind, [Chunk(row["isl"] - prefix, prefix)])
    batch = row["batch"]
    return analyse_step(
        kind, [Chunk(row["chunk"], prefix)], last=0, batch=batch, context=batch * row["context"]
    )


def verdicts(model: str, gpu: str) -> list[Line]:
    """Lines of verdicts."""
    sweep = ask_sweep("recommend", {"model": model, "hardware": gpu, **VERDICTS})
    name, deployment = model.split("/")[-1], Scenario(model, gpu, "1P1D").deployment()
    times = step_times(deployment.kinds)
    many = best(partial(count, sweep))
    given = rows_of(sweep, ("isl", "osl", "cv", "rate_per_s"))
    alone = single(partial(_means, deployment, times, row) for row in given)
    told = f"{sweep.points:,} points: four strategies, the best of four thresholds"
    return [
        Line("sweep of verdicts", name, many, many, told),
        Line("their means one by one", name, alone, many, "AtOnce: four strategies, one threshold"),
    ]


def _means(deployment: Deployment, times: dict[InstanceKind, StepTimes], row: dict[str, Any]) -> object:
    """The closed form of one point, as costmodel recommend asks for it."""
    changes = Changes(row["isl"], row["osl"], rate=row["rate_per_s"], cv=row["cv"])
    form = AtOnce(deployment, choose_workload(changes=changes), times)
    rule = Rule(RuleKind.THRESHOLD, threshold=row["isl"])
    return [form.means(strategy) for strategy in (COLOCATED, CHUNKED, DISAGGREGATED, deflected(rule))]


def peers(python: str, sweep: float) -> list[Line]:
    """Lines of the peers; ``sweep``: decode steps a second of Llama-3.1-8B here."""
    config = next((Path(__file__).parent.parent / "models").glob("meta-llama--Llama-3.1-8B.json"))
    command = [python, "-c", ASK_PEERS, str(config), str(SECONDS)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = (
        json.loads(run.stdout) if run.returncode == 0 else {n: {"missing": run.stderr[-200:]} for n in PEERS}
    )
    what = {
        "ridgepoint": "fit: one context of one request; memory, TTFT and decode rate with ranges, no batch",
        "servcalc": "estimate: 256 batches of one prompt length a call; TTFT and ITL with ranges",
    }
    lines = []
    for name in PEERS:
        answer = found[name]
        title = f"{name} {answer.get('version', '')}".strip()
        rate = answer.get("rate")
        remark = what[name] if rate else answer["missing"]
        lines.append(Line(title, "Llama-3(.1)-8B", rate, sweep if rate else None, remark))
        lines.append(
            Line(f"{title}: verdicts", "", None, None, "no call that compares strategies of serving")
        )
    return lines


def _whole(rate: float | None) -> str:
    return "-" if rate is None else f"{float(f'{rate:.3g}'):,.0f}"


def _ratio(line: Line) -> str:
    """How many times as many the sweep gives."""
    if line.rate is None or line.sweep is None:
        return "-"
    return f"{float(f'{line.sweep / line.rate:.3g}'):,.12g}"


def main() -> None:
    """Print the table."""
    python = next(islice(sys.argv, 1, None), sys.executable)
    lines = [line for case in MODELS for line in steps(*case)]
    decodes = lines[0].rate
    assert decodes is not None
    lines += [written(*case) for case in MODELS]
    lines += [line for case in MODELS for line in verdicts(*case)]
    lines += peers(python, decodes)
    cells = [(line.what, line.model, _whole(line.rate), _ratio(line), line.remark) for line in lines]
    header = ("what", "model", "a second of CPU", "the sweep over it", "")
    print(
        f"{date.today()}: {platform.processor() or platform.machine()}; CPython {platform.python_version()}\n"
    )
    print(tabulate(cells, header, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
