"""What ran: the deployment and strategy of a run, from what its result states and what the user says of it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ..audit.runs import Run
from ..audit.subject import Unknown
from ..dtypes import SPELLINGS
from ..errors import InputError
from ..families.named import model_named
from ..inputs.hardware import load_gpu
from ..inputs.link import link_names
from ..inputs.stack import Stack
from ..memory.engine import Engine, parse_version
from ..memory.engine_file import load_engine
from ..memory.parallelism import Parallelism
from ..memory.settings import EngineSettings, resolve
from ..records.machine import machine_of
from ..serving.deployment import Deployment
from ..serving.scenario import Scenario
from ..serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, STRATEGIES, Strategy, deflected
from ..units import format_si
from ..whole.runs import loaded_as
from ..whole.stacks import stack_for

STATED, OPTION, ASSUMED = "stated", "option", "assumed"
#: Engines whose memory rules are packaged, by what their name is written like.
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "tensorrtllm": "trtllm"}
_FIRST_TOKEN = ("recompute", "prefill", "decode")
#: vLLM plans a step while the one before it runs from its V1 engine on.
_PLANS_AHEAD = "0.8"


@dataclass(frozen=True)
class Taken:
    """Something that a prediction rests on; ``basis``: the result states it, an option does, or it is assumed."""

    name: str
    value: str
    basis: str
    note: str = ""


@dataclass(frozen=True)
class Ran:
    """The deployment that ran and its strategy, and where each part of them comes from.

    ``scenario``: what the deployment was made of, before what was measured of it.
    """

    deployment: Deployment
    strategy: Strategy
    engine: str | None
    taken: tuple[Taken, ...]
    scenario: Scenario

    @property
    def assumed(self) -> tuple[Taken, ...]:
        """What neither the result nor an option says."""
        return tuple(each for each in self.taken if each.basis == ASSUMED)


def what_ran(
    run: Run, scenario: Scenario, passed: Collection[str] = (), strategy: Strategy | str | None = None
) -> Ran:
    """Return what ran. ``passed``: fields of the scenario and its settings that the user passed; they count first.

    Raises Unknown where something that no default stands for is neither stated nor passed, InputError for bad names or
    values and for a strategy that the topology cannot run, NoAnswerError where the model does not fit.
    """
    reader = _Reader(run, scenario, frozenset(passed))
    chosen = reader.strategy(strategy)
    scenario = reader.scenario(chosen)
    made = scenario.deployment()
    if not chosen.pooled:
        made.need_split()
    return Ran(reader.measured(made), chosen, reader.engine, tuple(reader.taken), scenario)


class _Reader:
    """Conditions and options of one run, as they are taken one by one."""

    def __init__(self, run: Run, scenario: Scenario, passed: frozenset[str]) -> None:
        self.run, self.asked, self.passed = run, scenario, passed
        self.machine = machine_of(run.conditions)
        folded = re.sub(r"[^a-z]", "", run.text("engine"))
        self.engine = next((name for word, name in _ENGINES.items() if folded.startswith(word)), None)
        self.taken: list[Taken] = []

    def take(self, name: str, value: object, basis: str, note: str = "") -> None:
        self.taken.append(Taken(name, str(value), basis, note))

    def chosen(self, name: str, option: Any, stated: Any, default: Any, note: str = "not stated") -> Any:
        """An option where it was passed, else what is stated, else the default; noted in any case."""
        if name in self.passed:
            self.take(name, option, OPTION, _besides(option, stated))
            return option
        if stated is not None:
            self.take(name, stated, STATED)
            return stated
        self.take(name, default, ASSUMED, note)
        return default

    # --- strategy ------------------------------------------------------------------------------------

    def strategy(self, asked: Strategy | str | None) -> Strategy:
        """The strategy asked for, or stated; else chunks, as engines do by default."""
        if asked is not None:
            found = asked if isinstance(asked, Strategy) else _by_name(asked)
            self.take("strategy", found.name, OPTION)
            return found
        run = self.run
        flags = f"{run.text('engine_flags')} {run.text('engine_changes')}".replace("_", "-")
        words = f"{run.text('strategy')} {run.text('scenario')}"
        if "deflect" in words:
            return self._stated(deflected())
        if "disagg" in words or self.machine.split:
            return self._stated(DISAGGREGATED)
        if re.search(
            r"no-enable-chunked-prefill|enable-chunked-prefill[ =]+false|chunked-prefill-size[ =]+-1", flags
        ):
            return self._stated(COLOCATED)
        if "enable-chunked-prefill" in flags or "chunked" in words:
            return self._stated(CHUNKED)
        if "colocated" in words:
            return self._stated(COLOCATED)
        self.take("strategy", CHUNKED.name, ASSUMED, "not stated: engines cut prompts into chunks by default")
        return CHUNKED

    def _stated(self, found: Strategy) -> Strategy:
        self.take("strategy", found.name, STATED)
        return found

    # --- scenario ------------------------------------------------------------------------------------

    def scenario(self, strategy: Strategy) -> Scenario:
        """The scenario with everything that the run states and the user does not."""
        asked, run = self.asked, self.run
        self._check_model()
        split = not strategy.pooled
        topology = self.chosen("topology", asked.topology, self._topology(), "1P1D" if split else "1")
        made = replace(asked, topology=topology, **self._degrees(split=split, topology=topology))
        gpu = load_gpu(made.prefill_hardware or made.hardware)
        dtype = self._dtype(made)
        cache = run.text("kv_dtype")
        kv_dtype = SPELLINGS.get(cache, cache) if cache not in ("", "auto") else None
        made = replace(
            made,
            dtype=made.dtype if "dtype" in self.passed else dtype,
            kv_dtype=made.kv_dtype if "kv_dtype" in self.passed else kv_dtype,
        )
        made = replace(made, engine=self._engine(made), stack=self._stack(made))
        made = replace(made, settings=self._settings(made, gpu))
        if "engine" not in self.passed:
            own = made.settings
            engine = replace(made.engine, max_num_seqs=own.max_seqs, max_num_batched_tokens=own.token_budget)
            made = replace(made, engine=engine)
        return self._link(made) if split else made

    def _check_model(self) -> None:
        """Say it where the result names another model than the one that is computed with."""
        stated = self.run.conditions.get("model")
        model = self.asked.model
        name = model if isinstance(model, str) else model.name
        if stated is None:
            return
        try:
            same = (
                model_named(str(stated)).layers
                == (model_named(model) if isinstance(model, str) else model).layers
            )
        except InputError:
            same = str(stated).rpartition("/")[2].lower() == name.rpartition("/")[2].lower()
        if not same:
            self.take("model", name, OPTION, f"the result states {stated}")

    def _topology(self) -> str | None:
        machine = self.machine
        if machine.prefill is None:
            return None
        return f"{machine.prefill}P{machine.decode}D" if machine.decode else str(machine.prefill)

    def _degrees(self, *, split: bool, topology: str) -> dict[str, Any]:
        """TP of the instances. Raises Unknown where more GPUs are stated than instances, and not their split."""
        stages = self.run.number("pp")
        if stages is not None and stages > 1:
            raise Unknown("pipeline stages have no step times")
        asked, machine = self.asked, self.machine
        if self.passed & {"tp", "prefill_tp", "decode_tp"}:
            degrees = asked.prefill_tp or asked.tp, asked.decode_tp or asked.tp
            told = degrees[0] if degrees[0] == degrees[1] else degrees
            self.take("tp", told, OPTION, _besides(told, self._stated_tp()))
            return {"tp": asked.tp, "prefill_tp": asked.prefill_tp, "decode_tp": asked.decode_tp}
        if machine.per_prefill:
            own = machine.per_decode or machine.per_prefill
            self.take("tp", self._stated_tp(), STATED)
            return {"tp": own, "prefill_tp": machine.per_prefill if split else own, "decode_tp": own}
        instances = sum(int(n) for n in re.findall(r"\d+", topology))
        if machine.gpus is not None and machine.gpus != instances:
            raise Unknown(
                f"{machine.gpus} GPUs are stated, and not how instances split a model: pass --tp and --topology"
            )
        self.take("tp", asked.tp, ASSUMED, "not stated")
        return {"tp": asked.tp, "prefill_tp": None, "decode_tp": None}

    def _stated_tp(self) -> Any:
        """TP as stated: of all instances, or of either side where they differ; None where it is not."""
        own, other = self.machine.per_prefill, self.machine.per_decode
        return own if other in (own, None) else (own, other)

    def _dtype(self, made: Scenario) -> str | None:
        word = self.run.text("dtype")
        if not word or "dtype" in self.passed:
            return None
        model = model_named(made.model) if isinstance(made.model, str) else made.model
        wide = SPELLINGS.get(word, word)
        if wide in ("bf16", "fp16") and model.weight_dtype not in ("bf16", "fp16", "fp32"):
            return None  # engines name the dtype of activations so; weights stay as they are stored
        return loaded_as(model, wide)

    def _engine(self, made: Scenario) -> EngineSettings:
        """The engine at the version stated, as far as its rules are known."""
        if "engine" in self.passed:
            return made.engine
        if self.engine is None:
            said = self.run.conditions.get("engine")
            note = f"{said} has no memory rules here" if said else "not stated"
            self.take("engine", made.engine.engine, ASSUMED, note)
            return made.engine
        version = re.match(r"v?(\d+(?:\.\d+)+)", self.run.text("engine_version"))
        text = version[1] if version else None
        known = load_engine(self.engine)
        nearest = _nearest(known, text)
        if text is not None and nearest != text:
            self.take("engine", f"{self.engine} {nearest}", ASSUMED, f"rules of {text} are not known")
            text = nearest
        else:
            self.take("engine", f"{self.engine} {text or ''}".strip(), STATED)
        return replace(
            made.engine,
            engine=self.engine,
            version=text,
            memory_share=made.engine.memory_share or self.run.number("memory_utilization"),
        )

    def _settings(self, made: Scenario, gpu: Any) -> Any:
        """Budgets of a step: stated, passed, or the engine's defaults on this GPU."""
        own, run = made.settings, self.run
        budget, seqs = run.number("max_num_batched_tokens"), run.number("max_num_seqs")
        whose = f"default of {self.engine} on {gpu.name}" if self.engine else "not stated"
        usual = _defaults(made, gpu, None, seqs)[0] if self.engine else own.token_budget
        tokens = self.chosen("token_budget", own.token_budget, budget and int(budget), usual, whose)
        usual = _defaults(made, gpu, tokens, None)[1] if self.engine else own.max_seqs
        most = self.chosen("max_seqs", own.max_seqs, seqs and int(seqs), usual, whose)
        plans = self._plans_ahead()
        why = (
            "vLLM plans a step ahead from V1 on" if plans else "not stated: a step is planned when it begins"
        )
        ahead = self.chosen("lag", own.lag, None, plans, why)
        first = next((side for side in _FIRST_TOKEN if side in run.text("first_token")), None)
        if "first_token" in self.passed or first is None:
            first = own.first_token
        return replace(own, token_budget=tokens, max_seqs=most, lag=ahead, first_token=first)

    def _plans_ahead(self) -> bool:
        version = re.match(r"v?(\d+(?:\.\d+)+)", self.run.text("engine_version"))
        return self.engine == "vllm" and (
            version is None or parse_version(version[1]) >= parse_version(_PLANS_AHEAD)
        )

    def _stack(self, made: Scenario) -> Any:
        """The stack asked for, else the packaged one of the engine, where there is one."""
        if "stack" in self.passed or made.stack is not None:
            self.take("stack", getattr(made.stack, "name", made.stack), OPTION)
            return made.stack
        if self.engine is None:
            self.take("stack", "none", ASSUMED, "the engine is not stated")
            return None
        version = self.run.text("engine_version").removeprefix("v")
        found: list[Stack | None] = []
        for hardware in dict.fromkeys(
            (made.prefill_hardware or made.hardware, made.decode_hardware or made.hardware)
        ):
            found.append(
                stack_for(f"{self.engine}-{version}" if version else self.engine, load_gpu(hardware))
            )
        stack = found[0] if all(each == found[0] for each in found) else None
        if stack is not None and not any(fit.elsewhere for fit in stack.fits.values()):
            self.take("stack", stack.name, STATED)
            return stack
        nearest = f"; --stack {stack.name.partition(' ')[0]} is of another version" if stack else ""
        told = f"{self.engine} {version}" if version else f"{self.engine} of a version that is not stated"
        self.take("stack", "none", ASSUMED, f"no packaged stack was fitted to {told} on this GPU{nearest}")
        return None

    def _link(self, made: Scenario) -> Scenario:
        """The link of the copy. Raises Unknown where it is neither stated nor passed."""
        if "link" in self.passed:
            self.take("link", made.link, OPTION)
            return made
        words, bandwidth = self.run.text("link"), self.run.number("link_bandwidth")
        folded = re.sub(r"[^a-z0-9]", "", words)
        name = next((n for n in link_names() if words and re.sub(r"[^a-z0-9]", "", n) == folded), None)
        if name is None and bandwidth is None:
            said = f"the link {words!r} is not packaged" if words else "the link of the copy is not stated"
            raise Unknown(f"{said}: pass --link")
        if bandwidth is not None:
            self.take("link bandwidth", format_si(bandwidth, "byte/second"), STATED)
        if name is None:
            self.take("link", made.link, ASSUMED, "of its latency alone; the bandwidth is stated")
            return made
        self.take("link", name, STATED)
        nics = self.run.number("nics")
        return replace(made, link=name, nics=int(nics) if nics and "nics" not in self.passed else made.nics)

    def measured(self, made: Deployment) -> Deployment:
        """The deployment with what the result has measured of it: the KV pool logged, the bandwidth stated."""
        bandwidth, logged = self.run.number("link_bandwidth"), self.run.get("kv_cache_tokens")
        if bandwidth is not None and "link" not in self.passed:
            made = replace(made, path=replace(made.path, bandwidth_override=bandwidth))
        if logged is None:
            return made
        self.take("kv_cache_tokens", f"{logged.value:,.0f}", STATED)
        pools = [
            replace(pool, pool_bytes=logged.value * pool.sequence.most_per_token)
            for pool in (made.prefill_pool, made.decode_pool)
        ]
        return replace(made, prefill_pool=pools[0], decode_pool=pools[1])


def _besides(option: Any, stated: Any) -> str:
    """What to say where a result states something else than an option."""
    return "" if stated is None or stated == option else f"the result states {stated}"


def _nearest(engine: Engine, version: str | None) -> str | None:
    """The version whose rules stand for a stated one: itself, the newest known, or the earliest."""
    if version is None:
        return None
    if parse_version(version) > parse_version(engine.newest_version):
        return engine.newest_version
    earliest = max(min(entry.since for entry in engine.tables[table]) for table in ("rules", "batch"))
    return version if parse_version(version) >= earliest else ".".join(map(str, earliest))


def _by_name(name: str) -> Strategy:
    known = {strategy.name: strategy for strategy in STRATEGIES}
    if name not in known:
        raise InputError(f"unknown strategy {name!r}; expected one of {', '.join(known)}")
    return known[name]


def _defaults(made: Scenario, gpu: Any, budget: float | None, seqs: float | None) -> tuple[int, int]:
    """Token budget and sequences that an engine takes on a GPU where nothing is said."""
    asked = EngineSettings(
        made.engine.engine,
        made.engine.version,
        max_num_batched_tokens=int(budget) if budget else None,
        max_num_seqs=int(seqs) if seqs else None,
    )
    found = resolve(asked, gpu, Parallelism(tp=made.prefill_tp or made.tp))
    return (
        found.max_num_batched_tokens or made.settings.token_budget,
        found.max_num_seqs or made.settings.max_seqs,
    )
