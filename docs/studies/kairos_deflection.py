"""When Kairos's deflection cuts P95 TTFT, never triggers, and hurts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from common import Rows, table
from kairos_figures import CHUNK_ADDS, CUT
from kairos_mechanisms import AT, MECHANISMS, PLACES, nearest, seconds
from kairos_runs import NONE, Knobs, bench, loaded, p95, play, prefill_s, stages

from costmodel import Chunk
from costmodel.evaluate.summary import mean, quantile
from costmodel.evaluate.timeline import Record
from costmodel.serving.strategies import DISAGGREGATED, Rule, RuleKind, deflected

REQUESTS, HURT_REQUESTS, SEEDS = 1200, 2000, (1, 2, 3)
LOADS, HANDOVERS = (0.5, 0.8, 0.95, 1.1), (0.0, 3.0)
ALPHAS, TRIGGER_LOADS = (1.0, 1.3, 2.0), (0.1, 0.3, 0.8)


class Decode(NamedTuple):
    """A state of the decode pool."""

    label: str
    name: str
    tpot_s: float = 0.05
    seats: float | None = None


DECODES = (
    Decode("slack: hpld", "hpld"),
    Decode("slack: hphd", "hphd"),
    Decode("slack: lphd", "lphd"),
    Decode("no slack: hphd, TPOT SLO 25 ms", "hphd", tpot_s=0.025),
    Decode("full: hphd, 12 seats an instance", "hphd", seats=12),
)
FULL = Decode("full: hphd, 16 seats an instance", "hphd", seats=16)
#: State of decode, load and hand-over at which deflection hurts.
HURT = ((FULL, 0.8, 0.0), (DECODES[4], 0.5, 3.0), (DECODES[0], 0.3, 0.0))


class Deflection(NamedTuple):
    """P95 TTFT and P99 TPOT without and with deflection, in seconds, and the share kept local."""

    without: float
    with_it: float
    tpot_without: float
    tpot_with: float
    local: float

    @property
    def change(self) -> float:
        """Relative change of P95 TTFT."""
        return self.with_it / self.without - 1

    @property
    def tpot(self) -> str:
        """P99 TPOT in words."""
        return f"{1e3 * self.tpot_without:.0f} to {1e3 * self.tpot_with:.0f} ms"


def compared(without: Sequence[Record], with_it: Sequence[Record], knobs: Knobs) -> Deflection:
    """Two runs of the same requests."""
    runs = without, with_it
    ttft = [p95(sum(stages(r, knobs)) for r in run) for run in runs]
    tpot = [quantile(sorted(r.tpot for r in run if r.tpot is not None), 0.99) for run in runs]
    local = mean([r.route == "local" for r in with_it])
    return Deflection(ttft[0], ttft[1], tpot[0], tpot[1], local)


def under_rows() -> Rows:
    """Deflection where each mechanism, at its nearest value, makes up the hand-over."""
    rows: Rows = []
    for name, load in (PLACES[0], AT):
        for mechanism, (label, *_) in MECHANISMS.items():
            knobs, workload = nearest(mechanism, name, load), loaded(name, load)
            runs = [play(workload, knobs, way).finished for way in (DISAGGREGATED, deflected())]
            own = compared(runs[0], runs[1], knobs)
            rows.append((f"{name}, {load:g}: {label}", *map(seconds, (own.without, own.with_it)),
                         f"{own.change:+.0%}", f"{own.local:.0%}", own.tpot))  # fmt: skip
    return rows


@cache
def deflection(
    state: Decode,
    load: float,
    control_s: float,
    seed: int = 1,
    alpha: float = 1.3,
    count: int = REQUESTS,
) -> Deflection:
    """The same requests without and with the Kairos rule."""
    workload = loaded(state.name, load)
    workload = replace(workload, slo=replace(workload.slo, tpot_s=state.tpot_s))
    strategies = DISAGGREGATED, deflected(Rule(RuleKind.KAIROS, alpha=alpha))
    runs = [
        play(workload, Knobs(seats=state.seats), way, seed=seed, control_s=control_s, count=count).finished
        for way in strategies
    ]
    return compared(runs[0], runs[1], NONE)


def deflection_rows() -> Rows:
    """States of decode and hand-overs by loads."""
    rows: Rows = []
    for state in DECODES:
        for control in HANDOVERS:
            cells = []
            for load in LOADS:
                own = deflection(state, load, control)
                cells.append(f"{own.change:+.0%} of {seconds(own.without)} s; {own.local:.0%}; {own.tpot}")
            rows.append((state.label, f"{control:g} s", *cells))
    return rows


def hurt_rows() -> Rows:
    """Where it hurts, over several samples."""
    rows: Rows = []
    for state, load, control in HURT:
        found = [deflection(state, load, control, seed, count=HURT_REQUESTS) for seed in SEEDS]
        changes = (f"{own.change:+.0%}" for own in found)
        rows.append((state.label, f"{load:g}", f"{control:g} s", *changes))
    return rows


def chunked_prefill_s(tokens: int, chunk: int = 2048) -> float:
    """Remote execution as the rule estimates it: chunk by chunk."""
    steps = bench().tables[bench().deployment.prefill]
    return sum(steps.prefill(min(chunk, tokens - done), done) for done in range(0, tokens, chunk))


def trigger_rows() -> Rows:
    """Share of prompts deflected at lphd, by alpha and TPOT SLO."""
    return [
        (f"{1e3 * tpot:.0f} ms", f"{alpha:g}",
         *(f"{deflection(Decode('', 'lphd', tpot), load, 0.0, alpha=alpha).local:.1%}" for load in TRIGGER_LOADS))
        for tpot in (0.05, 0.03)
        for alpha in ALPHAS
    ]  # fmt: skip


def chunk_adds(tokens: int, prefix: int, batch: int = 14, context: int = 8192) -> float:
    """What a chunk over a prefix adds to a decode step."""
    steps, decodes = bench().tables[bench().deployment.decode], (batch, batch * context)
    return steps.step((Chunk(tokens, prefix),), 0, *decodes) - steps.decode(*decodes)


def deflection_section() -> str:
    """When deflection pays, never triggers, hurts."""
    grid = "decode", "hand-over", *(f"load {load:g}" for load in LOADS)
    under = "mechanism", "P95 TTFT, s", "deflected", "change", "kept local", "P99 TPOT"
    best = min(deflection(d, load, 0.0).change for d in DECODES[:3] for load in LOADS)
    eager = deflection(DECODES[0], 0.3, 0.0, alpha=1.0, count=HURT_REQUESTS).change
    calm = min(deflection(d, 0.5, 0.0).change for d in DECODES[:3])
    third = [deflection(d, 0.8, 0.0).change for d in DECODES[:3]]
    paid = max(
        deflection(d, load, wait).tpot_with for d in DECODES[:3] for load in LOADS for wait in HANDOVERS
    )
    pair = [deflection(DECODES[0], 0.5, wait).change for wait in HANDOVERS]
    rare = max(deflection(DECODES[3], load, wait).local for load in LOADS for wait in HANDOVERS)
    full = [deflection(DECODES[4], load, wait).change for load in LOADS for wait in HANDOVERS]
    adds = [1e3 * chunk_adds(*shape) for shape in ((512, 0), (512, 30_000), (2048, 0), (2048, 30_000))]
    return f"""## When deflection cuts, hardly triggers, and hurts

The rule is that of the paper with the copy in its estimate (`kairos`, alpha 1.3, beta 1). TTFT SLOs are those of \
the workloads, and the TPOT SLO is 50 ms unless another is named. A hand-over of 3 s delays each request by that \
time and holds no port. {REQUESTS:,} requests, seed 1; beyond capacity (1.1) P95 grows with the run, so the figures \
are of a run of this length. Each cell: change of P95 TTFT from what it is without deflection; share of prompts \
prefilled on decode instances (*kept local*); P99 TPOT without and with.

{table(deflection_rows(), grid)}

- **A cut of about 80%** needs prefill near or over its capacity and slack in decode: the largest here is \
{best:+.0%}. With a free hand-over it is {-max(third):.0%} to {-min(third):.0%} at a load of 0.8, and at most \
{-calm:.0%} at 0.5. P99 TPOT rises each time, to as much as {1e3 * paid:.0f} ms of 50. These are steady \
loads; the abstract names bursts that saturate prefill nodes, with a cut of up to {CUT:.0%}, and those were not run. \
Hand-overs that queue are the other way to such a cut (*by mechanism*, below).
- **Hand-overs of seconds** that nobody queues for make it smaller at loads of 0.8 and above: prompts that stay remote \
keep them, and those set the P95. (At 0.5 it may go \
the other way: hpld has {pair[0]:+.0%} without them and {pair[1]:+.0%} with them.)
- **It hardly triggers** without slack (at most {rare:.1%} of prompts, rows of 25 ms): where decode steps already take \
as long as the TPOT SLO allows, no chunk is safe.
- **It does not help** where decode is full ({min(full):+.0%} to {max(full):+.0%}), and may hurt: each prompt kept \
local takes a seat's time from those that wait for one. It also hurts at low load with all the slack there is. \
{HURT_REQUESTS:,} requests a seed:

{table(hurt_rows(), ("decode", "load", "hand-over", *(f"seed {seed}" for seed in SEEDS)))}

The last row is most likely due to the rule's estimate, which counts remote execution in chunks of 2,048 tokens, as a \
decode GPU would run it ({chunked_prefill_s(24_200):.2f} s for the 24,200 tokens of hpld's published prefill), while \
this prefill pool runs a whole prompt in one step ({prefill_s(24_200):.2f} s), so that an idle decode GPU always \
seems as fast. Alpha 1 does not change that ({eager:+.0%}, seed 1); an engine that chunks on its prefill nodes, too, \
would not have this error.

**By mechanism.** The same rule where the hand-over is long for each of the three reasons, at the values above. It \
is told the time of a copy on a free link, and knows nothing of waits for ports or seats:

{table(under_rows(), under)}

In these runs (two workloads, one seed) deflection cuts most where hand-overs queue, because prompts kept local \
shorten the queue for all; less where copies are slow side by side; and where decode admission is the cause it cuts \
little or makes P95 TTFT longer. A cut of up to 81% would speak against decode admission if this held in general, and \
if the figures and the cut are of the same runs; neither is known.

**Alpha.** Share of prompts deflected at lphd with a free hand-over:

{table(trigger_rows(), ("TPOT SLO", "alpha", *(f"load {load:g}" for load in TRIGGER_LOADS)))}

With alpha 1 a prompt is deflected only if it gains: a few per cent while the prefill queue is short. Alpha 1.3 gives \
up to 30 % of a prompt's own TTFT to the queue behind it. A TPOT SLO of 30 ms, which the steps of this decode pool \
already take up, all but stops deflection at any alpha. At low load a decode GPU may be idle, and then a local \
prefill is a remote one without the copy.

According to a summary of the paper's figure 1 (secondary), a decode step takes longer by {CHUNK_ADDS}; here, beside \
14 decodes of 8,192 tokens, {adds[0]:.0f} ms for 512 and {adds[2]:.0f} ms for 2,048 tokens of a fresh prompt, and \
{adds[1]:.0f} and {adds[3]:.0f} ms behind 30,000 cached ones. Without a prefix 512 tokens fit and 2,048 do not; \
behind 30,000 cached tokens 2,048 fit and 512 do not; and both grow with the prefix, so that no one prefix fits both \
beside this batch. Batch and prefix of the figure are not known.
"""
