"""Where pooling wins and where splitting does, for two models: python docs/studies/regimes.py > docs/studies/regimes.md

Takes five minutes of one core where replay is compiled, three times as long elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from common import table
from regimes_runs import LENGTH, MAX_SEQS, STEP, TPOTS, TTFT, Study
from regimes_ways import LARGE, SIZES, SMALL, Size, splits

from costmodel.inputs.workload import Slo
from costmodel.serving.strategies import deflected

LENGTHS = (256, 1024, 4096, 8192, 16384)
SHARES = (0.2, 0.4, 0.6, 0.75, 0.9)
TTFTS = (0.3, 0.5, 1.0, 2.0, 5.0)
OUTPUTS = (32, 256, 1024)
#: TPOT SLOs that bind the pooled ways of each model, and those of the 8B on 16 instances.
TIGHT, FINER = ((SMALL, 0.01), (LARGE, 0.02)), (0.015, 0.2)
#: SLOs as multiples of what a request alone takes: TTFT, then TPOT.
PATIENCE, FACTORS = 8.0, (1.2, 1.5, 2.0, 3.0, 6.0)
BALANCED = (Slo(1.0, 0.03), Slo(2.0, 0.05))


def grid(corner: str, heads: Iterable[str], rows: Iterable[tuple[str, Iterable[object]]]) -> str:
    """A table in markdown."""
    return table([(label, *map(str, cells)) for label, cells in rows], (corner, *heads)) + "\n"


def by_tpot(corner: str, rows: Iterable[tuple[str, Iterable[object]]], *before: str) -> str:
    """A table whose columns are TPOT SLOs."""
    return grid(corner, (*before, *(f"{1e3 * tpot:g} ms" for tpot in TPOTS)), rows)


def maps(study: Study, size: Size) -> str:
    """The four maps of a model."""
    lengths = {isl: f"{isl:,}" for isl in LENGTHS}
    rates = [
        (said, [study.bench(size, isl).relief(share) for share in SHARES]) for isl, said in lengths.items()
    ]
    outputs = [
        (f"{osl:,}", (f"{study.bench(size, LENGTH, osl).prefill_share():.0%}", *study.row(size, osl=osl)))
        for osl in OUTPUTS
    ]
    ttft, tpot = study.bench(size).alone()
    return f"""\
## Llama-3.1-{size.name}, {4 * size.tp} GPUs (TP{size.tp})

A prompt of {LENGTH:,} tokens alone takes {ttft:.3f} s, a decode step alone {1e3 * tpot:.1f} ms.

Map 1, mean delay: prompt tokens by rate (share of the capacity of the best pooled way)

{grid("prompt", (f"{share:g}" for share in SHARES), rates)}
Map 2, goodput: prompt tokens by TPOT SLO (TTFT <= {TTFT:g} s)

{by_tpot("prompt", [(said, study.row(size, isl)) for isl, said in lengths.items()])}
Map 3, goodput: TTFT SLO by TPOT SLO ({LENGTH:,} prompt tokens)

{by_tpot("TTFT", [(f"{ttft:g} s", study.row(size, ttft=ttft)) for ttft in TTFTS])}
Map 4, goodput: output tokens by TPOT SLO ({LENGTH:,} prompt tokens, TTFT <= {TTFT:g} s); *prefill* is the share of \
the GPUs' time that prompts take at the capacity of the best pooled way

{by_tpot("output", outputs, "prefill")}"""


def capacities(study: Study) -> str:
    """Capacity of the best split over that of the best pooled way: no SLO, no queue, closed form."""
    cases = [(f"{size.name}, 4 instances", [study.bench(size, isl) for isl in LENGTHS]) for size in SIZES]
    cases.append(("8B, 16 instances", [study.sixteen(isl) for isl in LENGTHS]))
    rows = [(said, [f"{bench.capacity_gain():.2f}" for bench in benches]) for said, benches in cases]
    return grid("prompt", map("{:,}".format, LENGTHS), rows)


def scaled(study: Study) -> str:
    """Goodput where each model's SLOs are multiples of what a request of it takes alone."""
    rows = []
    for size in SIZES:
        bench = study.bench(size)
        ttft, tpot = bench.alone()
        rows.append((size.name, [bench.gain(Slo(PATIENCE * ttft, factor * tpot)) for factor in FACTORS]))
    return grid("TPOT SLO / alone", (f"{factor:g}" for factor in FACTORS), rows)


def hybrids(study: Study) -> str:
    """Deflection at SLOs between the corners."""
    rows, ways = [], splits(4, "F", deflected())
    for size in SIZES:
        bench = study.bench(size)
        for slo in BALANCED:
            local = bench.kept_local(bench.best(ways, slo)[0], slo)
            cells = bench.gain(slo), bench.gain(slo, ways, splits(4)), bench.gain(slo, ways), f"{local:.0%}"
            rows.append((f"{size.name}, {slo.ttft_s:g} s, {1e3 * (slo.tpot_s or 0):g} ms", cells))
    return grid(
        "model, TTFT, TPOT", ("D against pooled", "F against D", "F against pooled", "kept local"), rows
    )


def other_choices(study: Study) -> str:
    """Rows of map 3 under what else could have been chosen."""
    rows: list[tuple[str, Iterable[object]]] = []
    for size in SIZES:
        rows.append((f"{size.name}, as above", study.row(size)))
        rows.append((f"{size.name}, --stack vllm-2026", study.row(size, stack="vllm-2026", seeds=(1,))))
        rows.append((f"{size.name}, drawn lengths", study.row(size, sigma=0.5, seeds=(1,))))
    return by_tpot("", rows)


def finer(study: Study) -> str:
    """The small model on as many GPUs as the large one."""
    rows = [(f"{osl:,}", [study.finer(osl, tpot) for tpot in FINER]) for osl in OUTPUTS[:2]]
    return grid("output", (f"{1e3 * tpot:g} ms" for tpot in FINER), rows)


INTRO = f"""\
# Regimes: where pooling wins and where splitting does

GPUs can be pooled (each instance runs whole prompts first, or chunks beside decodes) or split into prefill and decode \
instances. Which wins, by prompt length, rate and SLO, for a small and a large model? And do the signs agree with what \
is published?

| published | source |
|-----------|--------|
| (a) aggregation is best under tight TTFT and relaxed TPOT, disaggregation under strict TPOT and relaxed TTFT | \
TaiChi, [arXiv 2508.01989](https://arxiv.org/abs/2508.01989), abstract |
| (b) between them neither is best: a hybrid has up to 77 % more goodput than the state of the art | the same |
| (c) disaggregation is most effective for larger models | NVIDIA, Beyond the Buzz, \
[arXiv 2506.05508](https://arxiv.org/abs/2506.05508), abstract |
| (d) ... and for prefill-heavy traffic | the same |
| (e) dynamic rate matching is critical | the same |
| (f) disaggregated prefill does not improve throughput | \
[vLLM documentation](https://docs.vllm.ai/en/latest/features/disagg_prefill/) |
| (g) at an ISL:OSL of 10:1 and medium to large models separation improves throughput | \
[llm-d guide](https://llm-d.ai/docs/guides/pd-disaggregation) |
| (h) the boundary is at about 10B parameters | secondary: a reader of (c), \
ai-infrastructure.net/disaggregation-rate-matching |

Statements (a) to (e) are those of the abstracts. Only (b) states a size; the others are compared by sign.

## What was computed

Four instances of {" and of ".join(f"Llama-3.1-{size.name} (TP{size.tp})" for size in SIZES)}, bf16, H100 SXM; step \
times are computed from operators, without host time. KV is copied over one 400 Gb/s port a GPU. Poisson arrivals, \
prompts and outputs of one length, 256 output tokens where a map does not vary them, no prefix cache. The pooled side \
is the best of whole prompts (O) and chunks (C) with a token budget of 512 or 2,048; the split side (D) is the best of \
1P3D, 2P2D and 3P1D: each side has three tries and the same GPUs. At most {MAX_SEQS:,} sequences an instance (vLLM's \
default for an H100), so that this limit does not decide. All of these were chosen for this study, none to match a \
statement.

Goodput is the highest rate at which 90 % of requests meet both SLOs, on a grid of {100 * (STEP - 1):.0f} %, each rate \
replayed with two seeds, the same requests for every way to serve, and counted between warm-up and drain; a rate that \
some pool of instances cannot sustain (closed form) does not count. A cell is the winner and the ratio of the best of \
one side to the best of the other: `D 1.50` means that the best split has 1.50 times the goodput of the best pooled \
way, or in map 1, 1/1.50 of its mean delay over ideal (E2E less that of a request alone). `=`: within 3 %, or the \
seeds disagree. `only`: the other side cannot sustain the rate, or attains the SLOs at none. `-`: no way attains the \
SLOs. Cells have no error bands; `costmodel recommend` computes that of one cell.

Made by `python docs/studies/regimes.py > docs/studies/regimes.md` in about five minutes where replay is compiled.
"""


def listed(values: Iterable[object]) -> str:
    """Cells or figures with commas between."""
    return ", ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)


def aggregation_or_not(study: Study) -> str:
    """Statements (a) and (b)."""
    large, cell, ways = study.bench(LARGE), study.cell, splits(4, "F", deflected())
    ttft, tpot = large.alone()
    token1 = [cell(LARGE, 0.3, 0.2, first=first) for first in ("decode", "prefill")]
    cases = [(study.bench(size), slo) for size in SIZES for slo in BALANCED]
    mixed = [bench.gain(slo, ways, splits(4)).ratio for bench, slo in cases]
    worst = min(range(len(cases)), key=mixed.__getitem__)
    tight = cases[worst][1].tpot_s or 0.0
    return f"""\
(a) **Agrees**, for both models. Tight TTFT, loose TPOT: {cell(SMALL, 0.3, 0.2)} (8B, 0.3 s, 200 ms) and
{cell(LARGE, 0.5, 0.2)} (70B, 0.5 s, 200 ms). Strict TPOT, relaxed TTFT: {cell(SMALL, 5.0, 0.015)} (8B, 5 s, 15 ms)
and {cell(LARGE, 5.0, 0.02)} (70B, 5 s, 20 ms). Down every column of map 3, as TTFT loosens, cells stay or move towards
splitting. What is tight depends on the model: a decode step of the 70B alone takes {1e3 * tpot:.1f} ms, and nothing
attains 15 ms. Where both SLOs are loose pooling wins, too: only capacity counts there, and a split has less. A TTFT
SLO of 0.3 s is an edge for the 70B: a prompt alone takes {ttft:.3f} s, and hand-over and queue must fit into the rest.
Its {token1[0]} at 200 ms becomes {token1[1]} where the prefill side sends token 1 (`--first-token prefill`).

(b) **Not shown.** Near the change of sign the two pure ways are alike; TaiChi's mix of them is not modelled. The
nearest strategy, deflection by the estimate of Kairos (table below), has at most {max(mixed):.2f} times the goodput of
the plain split, and in no case more than the better pure way. For the 8B it keeps half of the prompts or more
local, but chunking gains more. Its rule looks at the TTFT of one prompt at a time: at worst
({cases[worst][0].size.name}, {1e3 * tight:g} ms) it costs {1 - min(mixed):.0%} against deflecting nothing.
"""


def size_and_prefill(study: Study) -> str:
    """Statements (c) and (d)."""
    small, large, cell = study.bench(SMALL), study.bench(LARGE), study.cell
    even = [bench.gain(Slo(PATIENCE * bench.alone()[0], 2 * bench.alone()[1])) for bench in (small, large)]
    short = (SMALL, 0.015)
    gain = {case: [cell(case[0], TTFT, case[1], osl=osl) for osl in OUTPUTS] for case in (*TIGHT, short)}
    left = {
        (size, tpot): [study.bench(size, osl=n).left(Slo(TTFT, tpot), Slo(TTFT, TPOTS[-1])) for n in OUTPUTS]
        for size, tpot in gain
    }
    loose = [cell(LARGE, TTFT, 0.2, osl=osl) for osl in OUTPUTS]
    return f"""\
(c) **Agrees.** At the same SLOs (2 s, 20 ms): {cell(SMALL, TTFT, 0.02)} for the 8B, {cell(LARGE, TTFT, 0.02)} for the
70B; by mean delay at 0.75 of capacity {small.relief(0.75)} and {large.relief(0.75)}. Part of it, but not all, is that
the same TPOT SLO is tighter for a slower model: at SLOs in proportion to what a request of each takes alone (twice its
TPOT) it is {even[0]} and {even[1]}, and at every multiple tried the 70B gains more.

(d) **Agrees where the TPOT SLO binds; elsewhere splitting gains nothing.** With {", ".join(f"{n:,}" for n in OUTPUTS)}
output tokens: {listed(gain[TIGHT[0]])} (8B, 10 ms) and {listed(gain[TIGHT[1]])} (70B, 20 ms), SLOs that leave the
pooled ways {listed(left[TIGHT[0]])} and {listed(left[TIGHT[1]])} of their goodput at 200 ms. Longer prompts do
the same: at 20 ms the 70B goes from {cell(LARGE, TTFT, 0.02, 256)} to {cell(LARGE, TTFT, 0.02, 16384)} (map 2).
At 200 ms pooling wins, in no order ({listed(loose)} for the 70B): whole instances fit one load better than another.
At 15 ms, which leaves {listed(left[short])}, the 8B does not follow: {listed(gain[short])}. In part four instances
cannot be split finely enough: of 16 the first two are {study.finer(32, 0.015)} and {study.finer(256, 0.015)},
so that the sign of the first turns; but the gain still does not grow with the prefill share there.
"""


def throughput(study: Study) -> str:
    """Statements (e) to (h)."""
    four, sixteen = ([b.capacity_gain() for b in benches] for benches in (
        [study.bench(SMALL, isl) for isl in LENGTHS], [study.sixteen(isl) for isl in LENGTHS]))  # fmt: skip
    large = [study.bench(LARGE, isl).capacity_gain() for isl in LENGTHS]
    best = study.cell(LARGE, TTFT, 0.02, osl=32)
    return f"""\
(e) **Agrees**, as far as fixed splits can show it. Of 16 instances the 8B's best split has
{min(sixteen):.2f} to {max(sixteen):.2f} of the pooled capacity,
of four {min(four):.2f} to {max(four):.2f}, and 16 are never worse: what a split loses is mostly that
instances are whole.

(f) **Agrees.** Without SLOs the best split of four sustains {min(four + large):.2f} to {max(four + large):.2f} of the
rate of the best pooled way, in no case more. Goodput is another matter: {best} (70B, 32 output tokens, 20 ms).

(g) **Not as capacity, yes as goodput.** At 4,096:256, which is 16:1, the 70B's split sustains
{study.bench(LARGE).capacity_gain():.2f} of the pooled rate without SLOs, and is {study.cell(LARGE, TTFT, 0.03)} at 2 s
and 30 ms. The guide does not say which it means.

(h) **In part.** At 4,096 tokens and 20 to 50 ms the 8B is better pooled and the 70B better split, but at 15 ms the 8B
is better split, too. The boundary is set by the TPOT SLO over the model's own decode step, not by a number of
parameters.

Mean delay (map 1) favours splitting more than goodput does: it counts every stall, and an SLO forgives those within
it. It gives splitting nothing with prompts of 256 tokens from 0.6 on, whose prefills stall little, nor at 0.9 of
the pooled capacity where no split sustains that rate; where one does, it wins.
"""


CLI = """\
```console
$ costmodel recommend meta-llama/Llama-3.1-70B --hardware h100-sxm --tp 4 --topology 3P1D --link ib-ndr --nics 4 \\
    --isl 4096 --osl 256 --rate 4 --slo-ttft 2s --slo-tpot 20ms
DISAGGREGATE: split as 2P2D (0.52 x the mean delay of 3P1D, by closed form), prefill every prompt on the
  prefill GPUs
  By goodput per GPU: 2.11x (1.81-2.46) that of the next best (colocated).
...
$ costmodel recommend meta-llama/Llama-3.1-70B --hardware h100-sxm --tp 4 --topology 3P1D --link ib-ndr --nics 4 \\
    --isl 4096 --osl 256 --rate 4 --slo-ttft 500ms --slo-tpot 200ms
...
                            colocated           chunked             disagg. 3P1D        deflected
goodput/GPU, req/s (band)   .69 (.61-.78)       .55 (.42-.72) ttft  .49 (.41-.60) ttft  .49 (.41-.60) ttft
...
```

The command compares one split at a time, with one token budget (2,048) and at most 256 sequences an instance.
"""


def page(study: Study) -> str:
    """The page as markdown."""
    return "\n".join((
        INTRO,
        *(maps(study, size) for size in SIZES),
        "## Reading\n",
        *(said(study) for said in (aggregation_or_not, size_and_prefill, throughput)),
        "## What the reading rests on\n",
        "Capacity without SLOs: best split over best pooled way (closed form), by prompt tokens\n",
        capacities(study),
        f"Goodput at SLOs in proportion: {LENGTH:,} tokens, TTFT <= {PATIENCE:g} times what a request of the model "
        "takes alone, TPOT by multiples of its own\n",
        scaled(study),
        f"Deflection (F, the best of three splits) between the corners, {LENGTH:,} tokens\n",
        hybrids(study),
        f"The 8B on 16 instances, as many GPUs as the 70B has: {LENGTH:,} tokens, TTFT <= {TTFT:g} s, by TPOT SLO; "
        "only splits with at least 0.7 of the best one's capacity, one seed\n",
        finer(study),
        f"Other choices: {LENGTH:,} tokens, TTFT <= {TTFT:g} s, by TPOT SLO; a stack fitted to current vLLM on this "
        "GPU, and log-normal lengths with a sigma of 0.5 (one seed each). The corners keep their signs\n",
        other_choices(study),
        "## With the command line\n",
        CLI,
    ))  # fmt: skip


if __name__ == "__main__":
    print(page(Study()), end="")
