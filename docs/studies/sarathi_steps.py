"""What chunks cost and gain by step times, beside what the artifact measured: one prompt, one step, a budget.

Measured: github.com/microsoft/sarathi-serve@02d2567, osdi-experiments; files are named where their figures stand.
"""

from __future__ import annotations

from functools import cache

from common import table
from sarathi_engine import LLAMA, MISTRAL, SEATS, YI, instance, kind_of, quarter_of_a40, times_of

from costmodel.formulas.chunking import chunk_count, chunk_kv_reread
from costmodel.memory.kv import bytes_per_gpu
from costmodel.operators.catalogue import COLLECTIVES
from costmodel.serving.instance import InstanceKind
from costmodel.serving.step import seconds_by_kind
from costmodel.serving.table import StepTable
from costmodel.serving.work import Chunk

# --- what a chunk costs ------------------------------------------------------------------------------

#: Prefill of Yi-34B-200K TP2, ms a prompt, by prompt and chunk: figure-9/chunking-overhead.csv.
MEASURED = {
    2047: {512: 435.679, 1024: 444.168, 2048: 377.710, 16384: 378.134},
    4095: {512: 921.958, 1024: 932.263, 2048: 793.904, 16384: 775.444},
    8191: {512: 1958.531, 1024: 1946.237, 2048: 1643.372, 16384: 1754.164},
    16383: {512: 4512.830, 1024: 4357.554, 2048: 3651.590, 16384: 4535.002},
}


def cuts(length: int, chunk: int) -> list[Chunk]:
    """A prompt in chunks."""
    return [Chunk(min(chunk, length - start), start) for start in range(0, length, chunk)]


def seconds(kind: InstanceKind, length: int, chunk: int) -> dict[str, float]:
    """Time of a prompt in chunks, alone, by kind of operator."""
    found: dict[str, float] = {}
    for cut in cuts(length, chunk):
        last = int(cut.prefix + cut.tokens == length)
        for name, time in seconds_by_kind(kind, (cut,), last, 0, 0).items():
            found[name] = found.get(name, 0.0) + time
    return found


def slower(length: int, chunk: int, stack: str | None = None) -> float:
    """Time in chunks over time whole, of Yi-34B TP2."""
    kind = kind_of(YI, 2, stack)
    return sum(seconds(kind, length, chunk).values()) / sum(seconds(kind, length, length).values())


def reread(kind: InstanceKind, length: int, chunk: int) -> float:
    """Time of reading earlier KV again at the peak bandwidth."""
    each = sum(count * bytes_per_gpu(mixer, kind.kv_dtype, kind.tp) for mixer, count in kind.model.mixers)
    return float(chunk_kv_reread(length, chunk, each)) / kind.memory_peak


def shares(length: int, chunk: int) -> dict[str, float]:
    """What chunking adds, of the time whole: by cause. They add up to ``slower`` under stack vllm-2026, less 1."""
    kind = kind_of(YI, 2)
    cut, whole = seconds(kind, length, chunk), seconds(kind, length, length)
    total = sum(whole.values())
    added = {name: (cut.get(name, 0.0) - whole.get(name, 0.0)) / total for name in cut | whole}
    read = reread(kind, length, chunk) / total
    found = {
        "KV re-read": read,
        "attention tiles": added.pop("attention_prefill") - read,
        "GEMM": added.pop("gemm"),
        "collectives": sum(added.pop(name) for name in COLLECTIVES if name in added),
        "launches, element-wise": sum(added.values()),
    }
    return found | {"host": slower(length, chunk, "vllm-2026") - slower(length, chunk)}


def collectives(length: int, chunk: int) -> float:
    """What collectives add, of all that chunking adds."""
    return shares(length, chunk)["collectives"] / (slower(length, chunk) - 1)


def chunking() -> str:
    """The price of chunking, beside the artifact's."""
    rows = []
    for length, measured in MEASURED.items():
        for chunk in (512, 1024, 2048):
            parts = [f"{100 * share:+.1f}" for share in shares(length, chunk).values()]
            found = f"{slower(length, chunk):.3f}", f"{measured[chunk] / measured[16384]:.3f}"
            lossy = f"{slower(length, chunk, 'splitwise-2023'):.3f}"
            rows.append((f"{length:,}", f"{chunk:,}", found[0], *parts, found[1], lossy))
    header = ("prompt", "chunk", "x whole", *(f"{name}, %" for name in shares(2047, 512)))
    return table(rows, (*header, "measured", "stack splitwise-2023"), "right")


def quantised(model: str, tp: int) -> float:
    """Prefill step of 257 tokens over one of 256."""
    return times_of(model, tp).prefill(257) / times_of(model, tp).prefill(256)


# --- the token budget --------------------------------------------------------------------------------

#: Batch and tokens of each decode: the paper's for its SLOs; those of a full engine under chat.
PAPER_LOAD, FULL_LOAD = (32, 4096), (SEATS, 2600)
#: Model, TP, SLOs strict and relaxed, budgets chosen: the paper.
BUDGETS = (
    ("Mistral-7B, A100", MISTRAL, 1, (0.1, 0.5), (512, 2048)),
    ("Yi-34B, A100 TP2", YI, 2, (0.2, 1.0), (512, 2048)),
    ("LLaMA2-70B, A100 TP4", LLAMA, 4, (1.0, 5.0), (512, 1536)),
)
#: Rows of the instances that Mistral-7B and Yi-34B are, and LLaMA2-70B.
SMALLER, LARGEST = slice(0, 2), slice(2, 4)
#: Steps of Yi-34B-200K TP2, ms: figure-2/decode.csv by batch, at contexts of 1k; prefill.csv by tokens.
STEPS = {
    "decode": {1: 46.803, 32: 87.897, 128: 189.331},
    "prefill": {512: 105.582, 2048: 366.025, 8192: 1863.265},
}


def budget(times: StepTable, slo_s: float, load: tuple[int, int]) -> int:
    """Most tokens of a step, decodes and a chunk over 4,096 more, up to which every step stays within the SLO."""
    batch, context = load
    chunk, stride = 0, 16
    while times.step((Chunk(chunk + stride, 4096),), 0, batch, batch * context) <= slo_s:
        chunk += stride
    return chunk + batch


def instances() -> list[tuple[str, StepTable, int, tuple[float, float], tuple[int, int]]]:
    """Name, step times and what they are to be divided by, SLOs and budgets chosen."""
    cases = [(name, times_of(model, tp), 1, slos, chosen) for name, model, tp, slos, chosen in BUDGETS]
    return [*cases, ("LLaMA2-70B, 8 A40: a quarter of TP1", quarter_of_a40(), 4, *BUDGETS[-1][3:])]


@cache
def allowed() -> list[tuple[tuple[int, ...], ...]]:
    """The largest budgets of each instance, by SLO and load."""
    return [
        tuple(tuple(budget(times, split * slo, load) for load in (PAPER_LOAD, FULL_LOAD)) for slo in slos)
        for _, times, split, slos, _ in instances()
    ]


def portions(which: int, rows: slice) -> tuple[float, float]:
    """The smallest and the largest share of the budget allowed that was chosen; ``which`` SLO, strict or relaxed."""
    pairs = list(zip(instances(), allowed()))[rows]
    found = [one[-1][which] / most for one, by in pairs for most in by[which]]
    return min(found), max(found)


def budgets() -> str:
    """The largest budgets, beside those chosen."""
    rows = []
    for (name, times, split, slos, chosen), by in zip(instances(), allowed()):
        implied, step = f"{slos[0] / 5 * 1e3:.0f} ms", times.decode(32, 32 * 4096) / split
        for slo, most, choice in zip(slos, by, chosen):
            found = [f"{tokens:,}" for tokens in most]
            rows.append((name, f"{slo:g} s", implied, f"{step * 1e3:.1f} ms", *found, f"{choice:,}"))
    loads = [f"budget, {batch} x {context:,}" for batch, context in (PAPER_LOAD, FULL_LOAD)]
    header = ("instance", "P99 TBT", "decode step implied", "decode step", *loads, "chosen")
    return table(rows, header, "right")


def decode_1k(batch: int) -> float:
    """A decode step of Yi-34B TP2 over contexts of 1k, ms."""
    return 1e3 * times_of(YI, 2).decode(batch, batch * 1022)


def steps() -> str:
    """Whole steps of Yi-34B, beside the artifact's."""
    rows = []
    for phase, by in STEPS.items():
        for n, ms in by.items():
            computed = decode_1k(n) if phase == "decode" else 1e3 * times_of(YI, 2).prefill(n)
            rows.append((phase, f"{n:,}", f"{computed:.1f} ms", f"{ms:.1f} ms"))
    return table(rows, ("step", "batch at 1k, or tokens", "computed", "measured"), "right")


# --- what riding along gains -------------------------------------------------------------------------

#: Steps of Yi-34B-200K TP2, ms, of about 1,024 tokens each: table-2/results.csv.
RODE = {"4 decodes": 68.122, "prompt of 1,024": 217.236, "1,021 of a prompt, 3 decodes": 217.650}
#: Tokens of the prompt, and of each decode beside it.
PROMPT, CONTEXT = 4096, 2600
BATCHES, TOKENS = (1, 8, 32, 64, 96), (128, 256, 512, 1024, 2048)


def rode() -> dict[str, float]:
    """The same three steps as computed, ms."""
    times, context = times_of(YI, 2), 1032
    found = (
        times.decode(4, 4 * context),
        times.prefill(1024),
        times.step((Chunk(1021, 0),), 0, 3, 3 * context),
    )
    return {name: 1e3 * time for name, time in zip(RODE, found)}


def riding(times: StepTable, tokens: int, batch: int) -> tuple[float, float]:
    """Seconds a prompt token that riding beside decodes gains and that chunking costs, in steps of ``tokens``.

    Gain: decode steps and chunks apart, less the mixed steps. Cost: the chunks less the prompt whole.
    """
    chunks, context = cuts(PROMPT, tokens - batch), batch * CONTEXT
    last = len(chunks) - 1
    mixed = sum(times.step((cut,), int(i == last), batch, context) for i, cut in enumerate(chunks))
    alone = sum(times.step((cut,), int(i == last), 0, 0) for i, cut in enumerate(chunks))
    decodes = chunk_count(PROMPT, tokens - batch) * times.decode(batch, context)
    return (decodes + alone - mixed) / PROMPT, (alone - times.prefill(PROMPT)) / PROMPT


def riders(times: StepTable) -> str:
    """Gain less cost, microseconds a prompt token, by budget and batch."""
    rows = []
    for tokens in TOKENS:
        pairs = [[1e6 * part for part in riding(times, tokens, batch)] for batch in BATCHES]
        cells = [f"{gain:.1f} - {cost:.1f} = {gain - cost:+.1f}" for gain, cost in pairs]
        rows.append((f"{tokens:,}", *cells))
    return table(rows, ("budget", *(f"{n} decode{'s' * (n > 1)}" for n in BATCHES)), "right")


def turns(times: StepTable, tokens: int) -> str:
    """The smallest batch, of those that leave half the budget to the prompt, from which chunks lose."""
    most = min(SEATS, tokens // 2)
    for batch in range(1, most + 1):
        gain, cost = riding(times, tokens, batch)
        if gain < cost:
            return str(batch)
    return f"none up to {most}"


def times_once() -> StepTable:
    """Mistral-7B's step times with one attention call for chunks and decodes."""
    return StepTable(instance(MISTRAL, 1, together=True).prefill)


def losing() -> tuple[int, int]:
    """The smallest and the largest number of decodes from which on chunks lose with one call, over the budgets."""
    found = [int(turns(times_once(), tokens)) for tokens in TOKENS]
    return min(found), max(found)


def turning() -> str:
    """From how many decodes on the sum is negative, by kernel and budget."""
    both = {
        "two attention calls": times_of(MISTRAL, 1),
        "one call (fit borrowed from rtx-4090)": times_once(),
    }
    rows = [(name, *(turns(times, tokens) for tokens in TOKENS)) for name, times in both.items()]
    return table(rows, ("budget", *(f"{tokens:,}" for tokens in TOKENS)), "right")
