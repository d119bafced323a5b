"""Where pooling wins and where splitting does, for two models: python docs/studies/regimes.py > docs/studies/regimes.md

Takes five minutes of one core where replay is compiled, three times as long elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from common import place, table
from regimes_runs import LENGTH, MAX_SEQS, STEP, TPOTS, TTFT, Study
from regimes_ways import LARGE, SIZES, SMALL, Cell, Size, splits

from costmodel.inputs.workload import Slo
from costmodel.serving.strategies import deflected

LENGTHS = (256, 1024, 4096, 8192, 16384)
SHARES = (0.2, 0.4, 0.6, 0.75, 0.9)
TTFTS = (0.3, 0.5, 1.0, 2.0, 5.0)
OUTPUTS = (32, 256, 1024)
#: TPOT SLOs that bind the pooled ways of each model, one that does less, and those of the 8B on 16 instances.
TIGHT, SHORT, FINER = ((SMALL, 0.01), (LARGE, 0.02)), (SMALL, 0.015), (0.015, 0.2)
#: SLOs as multiples of what a request alone takes: TTFT, then TPOT.
PATIENCE, FACTORS = 8.0, (1.2, 1.5, 2.0, 3.0, 6.0)
BALANCED = (Slo(1.0, 0.03), Slo(2.0, 0.05))
#: The model's own error band on a ratio of goodputs, either way: that of the two commands of the page, rounded.
BAND = 1.2


def grid(corner: str, heads: Iterable[str], rows: Iterable[tuple[str, Iterable[object]]]) -> str:
    """A table in markdown."""
    return table([(label, *map(str, cells)) for label, cells in rows], (corner, *heads)) + "\n"


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.0f} %"


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
        (f"{osl:,}", (percent(study.bench(size, LENGTH, osl).prefill_share()), *study.row(size, osl=osl)))
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
            cells = bench.gain(slo), bench.gain(slo, ways, splits(4)), bench.gain(slo, ways), percent(local)
            rows.append((f"{size.name}, {slo.ttft_s:g} s, {1e3 * (slo.tpot_s or 0):g} ms", cells))
    return grid(
        "model, TTFT, TPOT", ("D against pooled", "F against D", "F against pooled", "kept local"), rows
    )


def left_rows(study: Study) -> str:
    """What tight SLOs leave of the pooled ways' goodput."""
    rows = []
    for size, tpot in (*TIGHT, SHORT):
        left = [study.bench(size, osl=n).left(Slo(TTFT, tpot), Slo(TTFT, TPOTS[-1])) for n in OUTPUTS]
        rows.append((f"{size.name}, {1e3 * tpot:g} ms", [f"{share:.2f}" for share in left]))
    return grid("model, TPOT SLO", map("{:,}".format, OUTPUTS), rows)


def first_tokens(study: Study) -> str:
    """The 70B at a TTFT SLO that its prompt alone nearly takes, by who sends token 1."""
    sides = "decode", "prefill"
    return grid("token 1 from", sides, [("", [study.cell(LARGE, 0.3, 0.2, first=side) for side in sides])])


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


INTRO = """\
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
[ai-infrastructure.net](https://ai-infrastructure.net/disaggregation-rate-matching/) |

Statements (a) to (e) are those of the abstracts. Only (b) states a size; the others are compared by sign.
"""
METHOD = f"""\
## What was computed

Four instances of {" and of ".join(f"Llama-3.1-{size.name} (TP{size.tp})" for size in SIZES)}, bf16, H100 SXM; step \
times are computed from operators, without host time. KV is copied over one 400 Gb/s port a GPU. Poisson arrivals, \
prompts and outputs of one length, 256 output tokens where a map does not vary them, no prefix cache. The pooled side \
is the best of whole prompts (O) and chunks (C) with a token budget of 512 or 2,048; the split side (D) is the best of \
1P3D, 2P2D and 3P1D: each side has three tries and the same GPUs. At most {MAX_SEQS:,} sequences an instance (vLLM's \
default for an H100), so that this limit does not decide. All of these are choices of this \
study; *other choices*, below, has two alternatives.

Goodput is the highest rate at which 90 % of requests meet both SLOs, on a grid of {100 * (STEP - 1):.0f} %, each rate \
replayed with two seeds, the same requests for every way to serve, and counted between warm-up and drain; a rate that \
some pool of instances cannot sustain (closed form) does not count. A cell is the winner and the ratio of the best of \
one side to the best of the other: `D 1.50` means that the best split has 1.50 times the goodput of the best pooled \
way, or in map 1, 1/1.50 of its mean delay over ideal (E2E less that of a request alone). `=`: within 3 %, or the \
seeds disagree. `only`: the other side cannot sustain the rate, or attains the SLOs at none. `-`: no way attains the \
SLOs. Rates are whole powers of {STEP:g}: in map 1 {", ".join(f"{share:g}" for share in SHARES)} of capacity are \
{", ".join(f"{STEP ** place(share, STEP):.3f}" for share in SHARES)}.

**Cells below about {BAND:g} are undecided.** The seeds agree on them, but step times have errors, and the model's own \
band on a ratio of goodputs is a factor of about {BAND:g} either way: 2.11 (1.81-2.46) and 1.26 (1.05-1.50) in the \
commands at the end. The maps have no band cell by cell; of mean delays (map 1) none was computed.

Made by `python docs/studies/regimes.py > docs/studies/regimes.md` in about five minutes where replay is compiled.
"""


def listed(values: Iterable[object]) -> str:
    """Cells or figures with commas between."""
    return ", ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)


def in_short(study: Study) -> str:
    """The verdicts."""
    cell, (low, high) = study.cell, spread(study)
    return f"""\
## In short

* (a) **Agrees** for the 70B: {cell(LARGE, 0.5, 0.2)} pooled in one corner, {cell(LARGE, 5.0, 0.02)} split in the other.
  The 8B has {cell(SMALL, 0.3, 0.2)} and only {cell(SMALL, 5.0, 0.015)}, which is undecided.
* (b) **Not shown**: TaiChi's mix is not modelled, and deflection never beats the better pure way here.
* (c) **Agrees**: {cell(LARGE, TTFT, 0.02)} for the 70B where the 8B has {cell(SMALL, TTFT, 0.02)}. At SLOs in
  proportion to each model's own times the 70B still gains {low:.2f} to {high:.2f} times as much.
* (d) **Agrees where the TPOT SLO binds** (up to {cell(LARGE, TTFT, 0.02, osl=32)}); elsewhere splitting gains nothing.
* (e) **Consistent with** it, (f) **agrees**: without SLOs no split sustains more than the best pooled way.
* (g) **Not as capacity; as goodput** where the TPOT SLO is 20 or 30 ms. (h) **In part**: the TPOT SLO over the model's
  own decode step decides more than its size.
"""


def gains(study: Study) -> list[tuple[Cell, ...]]:
    """Both models at SLOs in proportion, by factor on TPOT."""
    found = []
    for factor in FACTORS:
        slos = [(study.bench(size), study.bench(size).alone()) for size in SIZES]
        found.append(tuple(bench.gain(Slo(PATIENCE * ttft, factor * tpot)) for bench, (ttft, tpot) in slos))
    return found


def spread(study: Study) -> tuple[float, float]:
    """Least and most of the large model's gain over the small one's, at SLOs in proportion."""
    ratios = [large.ratio / small.ratio for small, large in gains(study)]
    return min(ratios), max(ratios)


def aggregation_or_not(study: Study) -> str:
    """Statements (a) and (b)."""
    large, cell, ways = study.bench(LARGE), study.cell, splits(4, "F", deflected())
    ttft, tpot = large.alone()
    token1 = [cell(LARGE, 0.3, 0.2, first=first) for first in ("decode", "prefill")]
    cases = [(study.bench(size), slo) for size in SIZES for slo in BALANCED]
    mixed = [bench.gain(slo, ways, splits(4)) for bench, slo in cases]
    worst = min(range(len(cases)), key=lambda case: mixed[case].ratio)
    tight = cases[worst][1].tpot_s or 0.0
    return f"""\
(a) **Agrees** for the 70B: tight TTFT and loose TPOT give {cell(LARGE, 0.5, 0.2)} (0.5 s, 200 ms), strict TPOT and
relaxed TTFT {cell(LARGE, 5.0, 0.02)} (5 s, 20 ms). For the 8B the pooled corner is {cell(SMALL, 0.3, 0.2)} (0.3 s,
200 ms) and the split corner {cell(SMALL, 5.0, 0.015)} (5 s, 15 ms), which is undecided; at 10 ms it is
{cell(SMALL, TTFT, 0.01, 16384)} with prompts of 16,384 tokens (map 2) and {cell(SMALL, TTFT, 0.01, osl=32)} with 32
output tokens (map 4).
Down every column of map 3, as TTFT loosens, cells stay or move towards splitting. What is tight depends on the model:
a decode step of the 70B alone takes {1e3 * tpot:.1f} ms, and nothing attains 15 ms. Where both SLOs are loose pooling
is ahead, too, by no more than {cell(SMALL, 5.0, 0.2)} and {cell(LARGE, 5.0, 0.2)} at 5 s and 200 ms: only capacity
counts there, and a split has less.
A TTFT SLO of 0.3 s leaves the 70B little beside the prompt, which alone takes {ttft:.3f} s; hand-over and queue must
fit into the rest. Its {token1[0]} at 200 ms becomes {token1[1]} where the prefill side sends token 1.

(b) **Not shown.** TaiChi's mix of the two pure ways is not modelled. The nearest strategy, deflection by the estimate
of Kairos, was run at four SLOs between the corners (table below), where the pure ways are up to
{max((bench.gain(slo) for bench, slo in cases), key=lambda own: own.ratio)} and
{min((bench.gain(slo) for bench, slo in cases), key=lambda own: own.ratio)} apart. It has at most
{max(own.ratio for own in mixed):.2f} times the goodput of the plain split, and in no case more than the better pure
way. For the 8B it keeps half of the prompts or more local, but chunking gains more. Its rule looks at the TTFT of one
prompt at a time: at worst ({cases[worst][0].size.name}, {1e3 * tight:g} ms) deflecting nothing is better
({mixed[worst]}).
"""


def size_and_prefill(study: Study) -> str:
    """Statements (c) and (d)."""
    small, large, cell, (low, high) = study.bench(SMALL), study.bench(LARGE), study.cell, spread(study)
    even = dict(zip(FACTORS, gains(study)))[2.0]
    gain = {case: [cell(case[0], TTFT, case[1], osl=osl) for osl in OUTPUTS] for case in (*TIGHT, SHORT)}
    longer = [
        listed(cell(size, TTFT, tpot, isl) for isl in LENGTHS) for size, tpot in ((LARGE, 0.03), TIGHT[0])
    ]
    loose = [cell(LARGE, TTFT, 0.2, osl=osl) for osl in OUTPUTS]
    return f"""\
(c) **Agrees.** At the same SLOs (2 s, 20 ms): {cell(SMALL, TTFT, 0.02)} for the 8B, {cell(LARGE, TTFT, 0.02)} for the
70B; by mean delay at 0.75 of capacity {small.relief(0.75)} and {large.relief(0.75)}. Part of it, but not all, is that
the same TPOT SLO is tighter for a slower model: at SLOs in proportion to what a request of each takes alone (twice its
TPOT) it is {even[0]} and {even[1]}, and at each of the {len(FACTORS)} multiples tried the 70B gains more, {low:.2f} to
{high:.2f} times as much. This sets one GPU an instance (TP1, 4 GPUs) against four (TP4, 16 GPUs): the effect of size
and that of tensor parallelism are not told apart.

(d) **Agrees where the TPOT SLO binds; elsewhere splitting gains nothing.** With {", ".join(f"{n:,}" for n in OUTPUTS)}
output tokens: {listed(gain[TIGHT[0]])} (8B, 10 ms) and {listed(gain[TIGHT[1]])} (70B, 20 ms), SLOs that leave the
pooled ways less than half of their goodput at 200 ms (table below); of the 8B's only the first is decided.
Longer prompts do the same for the 70B at 20 ms
alone, from {cell(LARGE, TTFT, 0.02, 256)} to {cell(LARGE, TTFT, 0.02, 16384)} (map 2); at 30 ms the order breaks
({longer[0]}), and for the 8B at 10 ms, too ({longer[1]}).
At 200 ms pooling is ahead, in no order ({listed(loose)} for the 70B): whole instances fit one load better than another.
At 15 ms, which leaves more, the 8B does not follow: {listed(gain[SHORT])}. Of 16 instances, which split more finely,
the first two are {study.finer(32, 0.015)} and {study.finer(256, 0.015)}. All of these are undecided, and the gain does
not grow with the prefill share.
"""


def throughput(study: Study) -> str:
    """Statements (e) to (h), and what mean delay says."""
    four, sixteen = ([b.capacity_gain() for b in benches] for benches in (
        [study.bench(SMALL, isl) for isl in LENGTHS], [study.sixteen(isl) for isl in LENGTHS]))  # fmt: skip
    large = [study.bench(LARGE, isl).capacity_gain() for isl in LENGTHS]
    best, cell = study.cell(LARGE, TTFT, 0.02, osl=32), study.cell
    middle = [listed(cell(size, TTFT, tpot) for tpot in (0.02, 0.03, 0.05)) for size in SIZES]
    pairs = dict(zip(FACTORS, gains(study)))
    unlike = {factor: pair for factor, pair in pairs.items() if pair[0].sign * pair[1].sign < 0}
    apart = "; ".join(f"{factor:g} times: {listed(pair)}" for factor, pair in unlike.items())
    return f"""\
(e) **Consistent with** it, as far as fixed splits can show it. Of 16 instances the 8B's best split has
{min(sixteen):.2f} to {max(sixteen):.2f} of the pooled capacity,
of four {min(four):.2f} to {max(four):.2f}, and 16 are never worse: what a split loses is mostly that
instances are whole.

(f) **Agrees.** Without SLOs the best split of four sustains {min(four + large):.2f} to {max(four + large):.2f} of the
rate of the best pooled way, in no case more. Goodput is another matter: {best} (70B, 32 output tokens, 20 ms).

(g) **Not as capacity; as goodput where the TPOT SLO is strict.** At 4,096:256, which is 16:1, the 70B's split sustains
{study.bench(LARGE).capacity_gain():.2f} of the pooled rate without SLOs. At 2 s it is {cell(LARGE, TTFT, 0.02)} at
20 ms and {cell(LARGE, TTFT, 0.03)} at 30 ms, but {cell(LARGE, TTFT, 0.05)} at 50 ms and {cell(LARGE, TTFT, 0.2)} at
200 ms, both undecided. The guide does not say which it means.

(h) **In part.** At 4,096 tokens and 20, 30, 50 ms the 8B is better pooled ({middle[0]}) and the 70B better split
({middle[1]}), but at 10 and 15 ms the 8B is ahead split, too ({listed(cell(SMALL, TTFT, t) for t in TPOTS[:2])});
most of its cells here are undecided. The TPOT SLO over the model's own decode step decides more than its size does: at
SLOs in proportion both have the same sign at {len(FACTORS) - len(unlike)} of {len(FACTORS)} multiples, split where it
is tight and pooled where it is loose (not at {apart}, which is undecided). What is left, as in (c), is that the 70B
gains more at the same multiple.

{by_delay(study)}"""


def by_delay(study: Study) -> str:
    """What map 1 says against the others."""
    cells = [study.bench(size, isl).relief(share) for size in SIZES for isl in LENGTHS for share in SHARES]
    ours, theirs = (sum(own.sign == sign for own in cells) for sign in (1, -1))
    overrun = sum(own.ratio == 0 for own in cells)
    short = [listed(study.bench(size, 256).relief(share) for share in SHARES) for size in SIZES]
    return f"""\
Mean delay (map 1) favours splitting more than goodput does: it counts every stall, and an SLO forgives those within
it. Splitting has the lower mean delay in {ours} of {len(cells)} cells and pooling in {theirs}, {overrun} of these where
no split sustains the rate. With prompts of 256 tokens, whose prefills stall little, the gain ends as the rate grows:
{short[0]} (8B) and {short[1]} (70B).
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
COLOCATE: pool all 4 instances, whole prompts before decodes
  By goodput per GPU: 1.26x (1.05-1.50) that of the next best (chunked).
...
                            colocated           chunked             disagg. 3P1D        deflected
goodput/GPU, req/s (band)   .69 (.61-.78)       .55 (.45-.67) ttft  .49 (.41-.60) ttft  .49 (.41-.60) ttft
...
```

The command compares one split at a time, with one token budget (2,048) and at most 256 sequences an instance.
"""


def page(study: Study) -> str:
    """The page as markdown."""
    return "\n".join((
        INTRO,
        in_short(study),
        METHOD,
        *(maps(study, size) for size in SIZES),
        "## Reading\n",
        *(said(study) for said in (aggregation_or_not, size_and_prefill, throughput)),
        "## What the reading rests on\n",
        "Capacity without SLOs: best split over best pooled way (closed form), by prompt tokens\n",
        capacities(study),
        f"Goodput at SLOs in proportion: {LENGTH:,} tokens, TTFT <= {PATIENCE:g} times what a request of the model "
        "takes alone, TPOT by multiples of its own\n",
        scaled(study),
        "What TPOT SLOs leave the pooled ways: share of their goodput at 200 ms, by output tokens (map 4)\n",
        left_rows(study),
        f"The 70B at {LENGTH:,} tokens, 0.3 s and 200 ms, by the side that sends token 1 (`--first-token`)\n",
        first_tokens(study),
        f"Deflection (F, the best of three splits) between the corners, {LENGTH:,} tokens\n",
        hybrids(study),
        f"The 8B on 16 instances, as many GPUs as the 70B has: {LENGTH:,} tokens, TTFT <= {TTFT:g} s, by TPOT SLO; "
        "only splits with at least 0.7 of the best one's capacity, one seed\n",
        finer(study),
        f"Other choices: {LENGTH:,} tokens, TTFT <= {TTFT:g} s, by TPOT SLO; a stack fitted to current vLLM on this "
        "GPU, and log-normal lengths with a sigma of 0.5 (one seed each). The signs at 15 ms (8B), 20 ms (70B) and "
        "200 ms stay, most of them below 1.2\n",
        other_choices(study),
        "## With the command line\n",
        CLI,
    ))  # fmt: skip


if __name__ == "__main__":
    print(page(Study()), end="")
