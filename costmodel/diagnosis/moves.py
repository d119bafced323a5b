"""What is moved of a run, one at a time: settings, its strategy, hardware and load, with what engines call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..memory.engine import parse_version
from ..memory.settings import EngineSettings
from ..serving.deployment import Deployment, Settings, Topology
from ..serving.memory import KvPool, kv_pool
from ..serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy
from .causes import MEMORY, PROMPTS, SLOTS
from .ran import Ran
from .replays import Played, Replays

SETTING, STRATEGY, HARDWARE, LOAD = "setting", "strategy", "hardware", "load"
TOKEN_BUDGET, SEQUENCES, SHARE, CACHE = (
    "token budget",
    "sequences of a step",
    "memory share",
    "KV cache dtype",
)
#: Names that engines give to what is moved.
FLAGS = {
    TOKEN_BUDGET: {
        "vllm": "--max-num-batched-tokens", "sglang": "--chunked-prefill-size", "trtllm": "--max_num_tokens",
    },
    SEQUENCES: {"vllm": "--max-num-seqs", "sglang": "--max-running-requests", "trtllm": "--max_batch_size"},
    SHARE: {
        "vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static",
        "trtllm": "--kv_cache_free_gpu_memory_fraction",
    },
    CACHE: {
        "vllm": "--kv-cache-dtype fp8", "sglang": "--kv-cache-dtype fp8_e4m3", "trtllm": "kv_cache_config.dtype: fp8",
    },
}  # fmt: skip
_CHUNKS = {"vllm": "--enable-chunked-prefill", "sglang": "--enable-mixed-chunk"}
#: Without chunks prompts stand in steps of their own; vLLM's V1 engine mixes whole prompts with decodes instead.
_WHOLE = {"vllm": "--no-enable-chunked-prefill", "sglang": "--chunked-prefill-size -1"}
_MIXES_WHOLE = "0.8"
_LIGHTER = 0.1
#: By how much the share of memory grows, and what it leaves at least.
_MORE, _MOST_SHARE = 1.1, 0.97
_WIDE = ("bf16", "fp16", "fp32")


@dataclass(frozen=True)
class Move:
    """One setting moved: what results, how engines call it, and the causes of waits that it moves."""

    name: str
    step: str
    kind: str
    settings: dict[str, str]
    played: Callable[[], Played]
    causes: tuple[str, ...] = ()


def moves_of(replays: Replays) -> Iterator[Move]:
    """Yield settings, strategies on the same GPUs, more hardware and less load."""
    made = _Moves(replays)
    yield from made.settings()
    yield from made.memory()
    yield from made.strategies()
    yield from made.hardware()
    yield from made.load()


class _Moves:
    def __init__(self, replays: Replays) -> None:
        self.replays, self.ran = replays, replays.ran
        self.deployment = replays.ran.deployment

    def _flags(self, names: dict[str, str], value: object = "") -> dict[str, str]:
        """Flags of the run's engine, of all where it is not known."""
        engine = self.ran.engine
        return {e: f"{flag} {value}".strip() for e, flag in names.items() if engine in (e, None)}

    def _with(self, deployment: Deployment, strategy: Strategy | None = None) -> Callable[[], Played]:
        return lambda: self.replays.played(self.replays.probe, deployment, strategy)

    def settings(self) -> Iterator[Move]:
        own = self.deployment.settings
        for step, factor in (("x 2", 2.0), ("/ 2", 0.5)):
            tokens, most = int(own.token_budget * factor), int(own.max_seqs * factor)
            if tokens >= 1:
                yield self._setting(TOKEN_BUDGET, step, tokens, replace(own, token_budget=tokens), PROMPTS)
            if most >= 1:
                yield self._setting(SEQUENCES, step, most, replace(own, max_seqs=most), SLOTS)

    def _setting(self, name: str, step: str, value: int, settings: Settings, cause: str) -> Move:
        moved = replace(self.deployment, settings=settings)
        return Move(name, step, SETTING, self._flags(FLAGS[name], value), self._with(moved), (cause,))

    def memory(self) -> Iterator[Move]:
        deployment = self.deployment
        share = deployment.decode_pool.memory_share
        more = min(_MOST_SHARE, round(_MORE * share, 3))
        if more > share:
            engine = self.ran.scenario.engine.engine  # shares of other engines are of other things
            flags = {engine: f"{FLAGS[SHARE][engine]} {more:g}"}
            yield Move(SHARE, f"{share:g} to {more:g}", SETTING, flags, self._shared(more), (MEMORY,))
        if all(kind.kv_dtype in _WIDE for kind in deployment.kinds):
            flags = self._flags(FLAGS[CACHE])
            yield Move(CACHE, "to fp8", SETTING, flags, self._narrow, (MEMORY,))

    def _shared(self, share: float) -> Callable[[], Played]:
        engine = self.ran.scenario.engine

        def played() -> Played:
            own = self.deployment
            pools = [_grown(pool, engine, share) for pool in (own.prefill_pool, own.decode_pool)]
            return self._with(replace(own, prefill_pool=pools[0], decode_pool=pools[1]))()

        return played

    def _narrow(self) -> Played:
        """The KV cache in fp8: half the bytes of every token, in pools of the same bytes."""
        own, made = self.deployment, replace(self.ran.scenario, kv_dtype="fp8").deployment()
        pools = [
            replace(narrow, pool_bytes=pool.pool_bytes)
            for narrow, pool in ((made.prefill_pool, own.prefill_pool), (made.decode_pool, own.decode_pool))
        ]
        path = replace(made.path, bandwidth_override=own.path.bandwidth_override)
        moved = replace(made, prefill_pool=pools[0], decode_pool=pools[1], path=path, settings=own.settings)
        return self._with(moved)()

    def strategies(self) -> Iterator[Move]:
        own = self.ran.strategy
        others = [COLOCATED, CHUNKED, *([DISAGGREGATED] if self.deployment.topology.decode else [])]
        for strategy in others:
            if strategy.name != own.name:
                flags = _strategy_flags(self.ran, strategy)
                moved = self._with(self.deployment, strategy)
                yield Move("strategy", strategy.name, STRATEGY, self._flags(flags), moved)

    def hardware(self) -> Iterator[Move]:
        own = self.deployment
        at, path = own.topology, own.path
        if self.ran.strategy.pooled:
            more = {"instances": Topology(at.prefill + 1, at.decode)}
        else:
            more = {
                "prefill instances": Topology(at.prefill + 1, at.decode),
                "decode instances": Topology(at.prefill, at.decode + 1),
            }
        for name, topology in more.items():
            yield Move(name, "+ 1", HARDWARE, {}, self._with(replace(own, topology=topology)))
        if not self.ran.strategy.pooled:
            wider = replace(path, bandwidth_override=2 * path.bandwidth_bytes_per_s)
            yield Move("copy bandwidth", "x 2", HARDWARE, {}, self._with(replace(own, path=wider)))

    def load(self) -> Iterator[Move]:
        clients, probe = self.replays.load.concurrency, self.replays.probe
        name, step = ("arrival rate", f"- {_LIGHTER:.0%}")
        if clients is not None:
            name, step = "concurrency", f"- {max(1, round(_LIGHTER * clients))}"
        yield Move(name, step, LOAD, {}, lambda: self.replays.played(probe.lighter(_LIGHTER)))


def _grown(pool: KvPool, engine: EngineSettings, share: float) -> KvPool:
    """A pool with what another share of memory adds to it."""
    added = kv_pool(pool.kind, replace(engine, memory_share=share)).pool_bytes
    return replace(pool, pool_bytes=pool.pool_bytes + added - kv_pool(pool.kind, engine).pool_bytes)


def _strategy_flags(ran: Ran, strategy: Strategy) -> dict[str, str]:
    """Flags by which an instance runs a strategy; none where instances would have to be set up in another way."""
    if not (ran.strategy.pooled and strategy.pooled):
        return {}
    if strategy.name == CHUNKED.name:
        return _CHUNKS
    version = ran.scenario.engine.version
    mixes = version is None or parse_version(version) >= parse_version(_MIXES_WHOLE)
    return {engine: flag for engine, flag in _WHOLE.items() if not (engine == "vllm" and mixes)}
