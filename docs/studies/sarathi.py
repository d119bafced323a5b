"""What chunked prefill gains and costs, beside Sarathi-Serve: python docs/studies/sarathi.py > docs/studies/sarathi.md

About two minutes where replay is compiled.
"""

from __future__ import annotations

import math

from common import printed, table
from sarathi_capacity import (
    BASE,
    CASES,
    EARLY,
    LARGER,
    LONG,
    LOOSE,
    ONCE,
    RELAXED,
    SAMPLES,
    STRICT,
    TIGHT,
    VARIANTS,
    Case,
    Pair,
    pair,
)
from sarathi_engine import GPU, MISTRAL, YI, times_of
from sarathi_lengths import ARXIV, CHAT, filtered, kept, plain
from sarathi_steps import (
    CONTEXT,
    LARGEST,
    MEASURED,
    PAPER_LOAD,
    PROMPT,
    RODE,
    SMALLER,
    STEPS,
    allowed,
    budget,
    budgets,
    chunking,
    collectives,
    decode_1k,
    losing,
    portions,
    quantised,
    riders,
    riding,
    rode,
    shares,
    slower,
    steps,
    turning,
)

from costmodel.formulas.chunking import tile_fill

REPOSITORY = "https://github.com/microsoft/sarathi-serve"
PAPER = "[arXiv 2403.02310](https://arxiv.org/abs/2403.02310), OSDI 2024"
ARTIFACT = f"[sarathi-serve@02d2567, osdi-experiments]({REPOSITORY}/tree/02d2567/osdi-experiments)"
ENGINE = f"[sarathi-serve@13f16cf]({REPOSITORY}/tree/13f16cf), flashinfer_attention_wrapper.py"
#: Gains for Mistral-7B: of the abstract; of section 5.2 on figure 12, at chat lengths, 0.1 s and a budget of 512.
ABSTRACT, FIGURE_12 = 2.6, 3.5


def quoted(command: str, first: str, lines: int) -> str:
    """A command and some lines of what it prints, from the one that begins with ``first``."""
    shown = printed(command)
    start = next(i for i, line in enumerate(shown) if line.startswith(first))
    return "\n".join(["```console", f"$ {command}", "...", *shown[start : start + lines], "...", "```"])


def percent(share: float) -> str:
    """A signed share in percent."""
    return f"{100 * share:+.0f} %"


QUESTION = """\
# What chunked prefill gains and costs, beside Sarathi-Serve

How many more requests does an engine serve within a limit on the gap between tokens (time between tokens, TBT) when \
it cuts prompts into chunks that share steps with decodes? What does a chunk cost? How large may a step be?
"""


def short() -> str:
    """The answers, before anything else."""
    gain, yi = pair(STRICT).gain, pair(LARGER).gain
    least, most = portions(0, SMALLER)
    budgets_strict = [tokens for by in allowed()[SMALLER] for tokens in by[0]]
    few, many = losing()
    worst = [max(slower(length, chunk) for length in MEASURED) - 1 for chunk in (512, 2048)]
    return f"""
## In short

* *Capacity.* Mistral-7B serves {gain:.2f} times the requests under the strict SLO. The paper has two figures: \
{ABSTRACT} in its abstract, which agrees, and {FIGURE_12} in its section on this very case, which does not \
({percent(gain / FIGURE_12 - 1)}). Yi-34B: {yi:.2f} for 3.7 ({percent(yi / 3.7 - 1)}).
* *Cost.* Chunks of 512 add at most {percent(worst[0])} to a prompt of Yi-34B, at most about 25 % published; chunks \
of 2,048 at most {percent(worst[1])}, "almost negligible" published.
* *Size.* By these step times the strict SLOs of Mistral-7B and Yi-34B allow steps of {min(budgets_strict):,} to \
{max(budgets_strict):,} tokens; the 512 chosen are {least:.2f} to {most:.2f} of that.
* *Gain.* Chunks beside decodes (piggybacking) nearly always take the GPU less time than the prompt whole and the \
decode steps apart where chunks and decodes have an attention call each; with one call for both they lose from {few} \
to {many} decodes on.
"""


INTRO = f"""
## Published, and computed here

Sarathi-Serve ({PAPER}) reports:

* {ABSTRACT} times the requests of vLLM for Mistral-7B on one A100 (abstract); 3.7 times for Yi-34B TP2 on chat \
lengths, strict SLO. Section 5.2, on figure 12 (chat lengths): {FIGURE_12} times for Mistral-7B at 100 ms with a \
budget of 512, 1.65 times for Yi-34B at 1 s with 2,048. The caption of the same figure has the {FIGURE_12} for \
Yi-34B: the paper contradicts itself. Capacity: the highest Poisson rate with P99 TBT within the SLO and a median \
scheduling delay of at most 2 s. SLOs strict and relaxed, of P99 TBT: Mistral-7B 0.1 and 0.5 s, Yi-34B 0.2 and 1 s, \
LLaMA2-70B 1 and 5 s; token budgets 512 and 2,048 (LLaMA2-70B relaxed 1,536).
* Chunks of 512 cost a prompt of Yi-34B at most about 25 %, chunks of 2,048 almost nothing; a chunk of 257 tokens \
can take 32 % more than one of 256.
* SLOs are 5 and 25 times a decode iteration of batch 32 at 4,096 tokens: 20, 40 and 200 ms are implied for the \
three models.

Figures marked *measured* are of the authors' artifact ({ARTIFACT}), which also says: A100 80 GB PCIe, 128 sequences \
at most, whole-prompt steps of up to 8,192 (chat) and 16,384 tokens (arxiv), 2,048 requests a trial, search to 2.5 \
%. Absolute rates stand only in the paper's figures, and the abstract does not say of which lengths and SLO the \
{ABSTRACT} is.

Everything below is computed from operator times of {GPU} (fits to public tables; `costmodel show hardware {GPU}`), \
without host time. That board stands for the paper's PCIe one, for whose NVLink bridge `costmodel` has no bandwidth. \
No step time is fitted to the paper; the lengths are. `python docs/studies/sarathi.py > docs/studies/sarathi.md` \
makes this page in about two minutes where replay is compiled.
"""


def lengths_said() -> str:
    """What is assumed of lengths, with the check that was not fitted."""
    said = []
    for data in (CHAT, ARXIV):
        before, after = kept(plain(data), data.total)[0], kept(filtered(data), data.total)[0]
        said.append(
            f"{data.name}: P90 {after[1]:,.0f} and standard deviation {after[2]:,.0f} of prompts against "
            f"{data.prompt[1]:,} and {data.prompt[2]:,} published; fitted before the filter {before[1]:,.0f} and "
            f"{before[2]:,.0f}"
        )
    return "; ".join(said)


def assumptions() -> str:
    """What capacity rests on, and whose choice it is."""
    middle, high, spread = CHAT.output
    return f"""\
Assumptions, each with its source:

* *Lengths* (this page's choice): log-normal, so that the requests that pass the paper's filter on total length \
(8,192 and 16,384 tokens) have the published median and P90; prompt and output independent. This takes the published \
statistics as those of the filtered requests, because only then does the standard deviation, which is not fitted, \
come out right ({lengths_said()}). The published standard deviation of chat outputs, {spread}, cannot be right: a P90 \
that lies {high - middle} above the median makes it at least {(high - middle) / math.sqrt(12):.0f}.
* *Attention* (the engine's code, {ENGINE}): one call for the chunks, \
one for the decodes.
* *vLLM of that time*: whole prompts before decodes (`colocated`), up to 8,192 or 16,384 tokens a step.
* *TBT*: every gap between two tokens of a request counts once. `costmodel` reports a mean a request (TPOT), so gaps \
are counted here in its reference evaluator, token by token.
* *Model*: Mistral-7B-v0.1, whose attention has a window of 4,096 tokens. The artifact's configurations name \
Mistral-7B-Instruct-v0.2, which has none; the last row of the second table shows the difference.

Rates are searched on a grid of 2 %."""


def capacity_table(found: dict[Case, Pair]) -> str:
    """The first table."""
    rows = [
        (case.name, f"{case.tbt_s:g} s", f"{case.budget:,}", f"{case.count:,}", *one.cells, case.published)
        for case, one in found.items()
    ]
    header = (
        "case",
        "P99 TBT",
        "budget",
        "requests",
        "colocated, /s",
        "chunked, /s",
        "gain",
        "published",
    )
    return table(rows, header, "right")


def capacity_section() -> str:
    """Capacity, and what moves it."""
    found, other = {case: pair(case) for case in CASES}, {case: pair(case) for case in VARIANTS}
    base, strict, yi = other[BASE], found[STRICT].gain, found[LARGER].gain
    samples = [other[case].gain for case in SAMPLES]
    slope = math.log(other[LOOSE].whole / other[TIGHT].whole) / math.log(LOOSE.tbt_s / TIGHT.tbt_s)
    rows = [(case.name, *one.cells, percent(one.gain / base.gain - 1)) for case, one in other.items()]
    moving = [case.name for case, one in other.items() if abs(one.gain / base.gain - 1) > 0.1]
    header = ("choice", "colocated, /s", "chunked, /s", "gain", "against the first row")
    return f"""
## Capacity

{assumptions()}

{capacity_table(found)}

**Mistral-7B**: {strict:.2f} against the {ABSTRACT} of the abstract, which does not name its lengths: on arxiv the \
gain is {found[LONG].gain:.2f}. Against {FIGURE_12}, which the paper's text has for exactly this row, it is \
{percent(strict / FIGURE_12 - 1)}: the agreement is with the abstract alone. Three samples of {BASE.count} requests \
(next table) lie {100 * (max(samples) / min(samples) - 1):.0f} % apart, so a smaller difference than that says \
nothing. Rows of the next table that move the gain by more than 10 %: {"; ".join(moving)}. The choices of lengths and \
attention calls rest on the evidence named above: lengths fitted before the filter give {other[EARLY].gain:.2f}, near \
{FIGURE_12}, but have too small a standard deviation. **Yi-34B**: {yi:.2f} against 3.7, {percent(yi / 3.7 - 1)} \
({percent(yi / FIGURE_12 - 1)} against the {FIGURE_12} of the caption). It \
gains more than Mistral-7B, as by 3.7 and {ABSTRACT}; by 3.7 and {FIGURE_12} the two are nearly level. The published \
baseline had slower steps (table of steps below: a decode step of batch 32 takes {STEPS["decode"][32]:.0f} ms in the \
artifact, {decode_1k(32):.0f} ms here), and slower steps raise the gain (by {slope:+.2f} % for 1 %, see below); that \
this is the reason is inferred.

Why there is a gain at all. With whole prompts before decodes, each prompt that takes longer than the SLO makes one \
gap of every running decode too long, so the share of such gaps is about the rate of such prompts times the time of a \
decode step. P99 breaks where that share reaches 1 %, while the GPU still has room (median delays are milliseconds \
there). With chunks all gaps stay below the SLO, and only the delay limits the rate: the GPU is full. Under a relaxed \
SLO more prompts fit into a gap whole and the gain falls, for chat to {found[RELAXED].gain:.2f}. The paper's \
{FIGURE_12} (Mistral-7B, 100 ms) and 1.65 (Yi-34B, 1 s) are of two models, and so no measure of that fall.

The strict chat case under other choices, with {BASE.count} requests. So short a run ends before the delay has grown, \
and capacities are a little higher than above: compare within this table.

{table(rows, header, "right")}

* *Step time and SLO.* All step times multiplied by f act as an SLO divided by f with all rates divided by f. \
Chunked capacity is not bound by TBT here, so its elasticity to step time is -1 and to the SLO 0; that of \
`colocated` to the SLO is {slope:+.2f} (80 to 125 ms), to step time {-1 - slope:+.2f}. The gain therefore moves by \
{slope:+.2f} % for 1 % of step time, and by {-slope:+.2f} % for 1 % of SLO.
* *Length tails.* Fitting before the filter takes away the longest prompts, which cost the most throughput: the \
gain then moves by {percent(other[EARLY].gain / base.gain - 1)}.
* *One attention call.* Had chunks and decodes shared an attention call that does not split the decodes' KV (the fit \
of vLLM 0.19 on an RTX 4090, which `costmodel` uses for A100 by default and marks as borrowed), chunked capacity \
would change by {percent(other[ONCE].chunked / base.chunked - 1)}, the largest change of this table. The two calls \
follow the engine's code.
"""


def chunk_section() -> str:
    """The price of chunking."""
    worst = max(slower(length, 512) for length in MEASURED)
    most, finer = (max(by[chunk] / by[16384] for by in MEASURED.values()) for chunk in (512, 1024))
    parts = [collectives(length, chunk) for length in MEASURED for chunk in (1024, 2048) if chunk < length]
    dearest = max(MEASURED, key=lambda length: MEASURED[length][512] / MEASURED[length][16384])
    lossy = {length: slower(length, 512, "splitwise-2023") for length in MEASURED}
    tiles = float(tile_fill(257, 128)) * 257 / (float(tile_fill(256, 128)) * 256)
    command = (
        f"costmodel step {YI} --hardware {GPU} --tp 2 --phase prefill --isl 4096 --chunk 512 --chunk 2048"
    )
    return f"""
## What a chunk costs

A prompt of Yi-34B on two A100s, alone: its time in chunks over its time whole. What chunks add has five causes, in \
per cent of the whole prefill: earlier KV read again (formula `chunk_kv_reread` at the peak bandwidth), the rest of \
attention (tiles that do not fill the processors, and starts), smaller GEMMs, all-reduces, and launches and \
element-wise operators. The host is not part of *x whole*: its column is what stack vllm-2026 adds to it. Messages of \
512 tokens take vLLM's own all-reduce, longer ones NCCL's, which is why the time of collectives can fall.

{chunking()}

{quoted(command, "  chunk", 4)}

(*tile fill*: rows that whole tiles of a GEMM compute, over useful ones; *SM fill*: processor-waves that attention's \
tiles occupy, over tiles.)

* *Published: 512 at most about 25 %.* Computed at most {percent(worst - 1)}; measured in the artifact at most \
{percent(most - 1)} (1,024: {percent(finer - 1)}). Re-reading KV is never more than \
{100 * shares(16383, 512)["KV re-read"]:.1f} %. At 512 small GEMMs and unfilled attention tiles make nearly all of \
it; at 1,024 and 2,048 collectives make {100 * min(parts):.0f} to {100 * max(parts):.0f} %.
* *Published: 2,048 almost negligible.* Computed {percent(slower(4095, 2048) - 1)} at 4,095 tokens, \
{percent(slower(16383, 2048) - 1)} at 16,383. Measured, it is negative for long prompts: whole prefills are slower \
than chunks of 2,048 from 8,191 tokens on.
* *What disagrees.* Measured cost rises to {dearest:,} tokens and falls from there, computed cost rises throughout. \
Of the stacks with terms for the A100 only splitwise-2023 (last column) goes below 1, as it loses time on all-reduces \
of large messages, which a whole prompt sends and chunks do not. But chunks of 512 are {lossy[dearest]:.3f} of the \
whole at {dearest:,} tokens already, where the measured cost is highest, and fall no further from 8,191 to 16,383; so \
it is no more than a hint of what slowed the artifact's whole prefills. Operator times do not explain why 1,024 costs \
as much as 512 there.
* *257 against 256.* One step of 257 tokens against one of 256: {percent(quantised(YI, 2) - 1)} (Yi-34B TP2) and \
{percent(quantised(MISTRAL, 1) - 1)} (Mistral-7B), up to +32 % published; three tiles of 128 rows for two alone would \
be {percent(tiles - 1)} (formula `tile_fill`), were the whole step GEMMs bound by arithmetic.
"""


def budget_section() -> str:
    """The rule of the token budget."""
    times = times_of(YI, 2)
    longer = STEPS["decode"][32] - decode_1k(32)
    strict, relaxed = portions(0, SMALLER), portions(1, SMALLER)
    largest = [part for which in (0, 1) for part in portions(which, LARGEST)]
    ratios = [slower(length, 2048) - 1 for length in MEASURED]
    measured = [by[2048] / by[16384] - 1 for by in MEASURED.values()]
    return f"""
## The token budget

The rule: profile steps once, and take the most tokens with which a step stays within the TBT SLO. Here: decodes of a \
batch, and a chunk over 4,096 cached tokens, raised by 16 tokens until a step is too long. Two loads: the one by \
which the paper defines its SLOs (32 decodes at 4,096 tokens), and a full engine under chat (128 at 2,600).

{budgets()}

* *Decode step.* Against the 20 and 40 ms implied, Mistral-7B is \
{percent(times_of(MISTRAL, 1).decode(32, 131072) / 0.02 - 1)}, Yi-34B {percent(times.decode(32, 131072) / 0.04 - 1)}. \
LLaMA2-70B ran on eight A40s, TP4 in two stages; an A40 has no all-reduce rate on record, so there is no such \
instance here. A quarter of the time on one A40, with all-reduces free, is less than half of the 200 ms implied: \
all-reduces over PCIe and the wait of one stage for the other are missing. On A100s a decode step takes a fifth of \
the 200 ms; those rows say what another GPU would allow.
* *Budget.* The paper's choices for Mistral-7B and Yi-34B are {strict[0]:.2f} to {strict[1]:.2f} (strict) and \
{relaxed[0]:.2f} to {relaxed[1]:.2f} (relaxed) of what these step times allow; for LLaMA2-70B, whose GPUs are not \
those of the rows, {largest[0]:.2f} to {largest[1]:.2f} and {largest[2]:.2f} to {largest[3]:.2f}. The likely reason \
is not the rule but the engine's steps, which are longer than these. The artifact's own steps of Yi-34B \
TP2, beside those computed:

{steps()}

With a decode step {longer:.0f} ms longer, as measured at batch 32, the strict budget of Yi-34B would be \
{budget(times, 0.2 - longer / 1e3, PAPER_LOAD):,} tokens, near the 512 chosen. (In the engine's code decodes run \
through a kernel of prefills, which may be why measured decode steps grow that fast with the batch.) The measured \
{STEPS["decode"][32]:.0f} ms, of 1k contexts, also contradict the 40 ms implied by the SLO; both are the authors'. \
The relaxed budget of 2,048 is not set by the SLO; a likely reason is that chunks of that size cost little \
({percent(min(ratios))} to {percent(max(ratios))} computed, {percent(min(measured))} to {percent(max(measured))} \
measured, tables above; inferred).
"""


def riding_section() -> str:
    """What riding along gains beside what chunking costs."""
    found, times = rode(), times_of(MISTRAL, 1)
    rows = [(name, f"{found[name]:.1f} ms", f"{ms:.1f} ms") for name, ms in RODE.items()]
    hidden, chunked = riding(times, 512, 32)
    share = hidden / (chunked + times.prefill(PROMPT) / PROMPT)
    few, many = losing()
    gain, cost = riding(times, 512 + 8, 8)
    command = f"costmodel step {MISTRAL} --hardware {GPU} --phase mixed --batch 32 --context {CONTEXT}"
    command += " --cached 2048 --chunk 480"
    return f"""
## What chunks beside decodes gain

A chunk rides along (piggybacks) where it shares a step with decodes. Such a mixed step reads the weights \
once for its chunk and its decodes. Yi-34B TP2, 1,024 tokens:

{table(rows, ("step", "computed", "measured"), "right")}

Three decodes beside a chunk cost next to nothing, measured and computed alike, though the steps themselves are \
longer in the artifact.

Mistral-7B: a prompt of {PROMPT:,} tokens, in steps of a budget that holds the decodes, too (of {CONTEXT:,} tokens \
each). Gain: the chunks alone and as many decode steps alone, less the mixed steps. Cost: the chunks alone less the \
prompt whole. Both in microseconds a prompt token (the prompt whole takes \
{times.prefill(PROMPT) / PROMPT * 1e6:.1f}):

{riders(times)}

Gain exceeds cost throughout: chunks that ride along take the GPU less time than the prompt whole and the decode \
steps apart. At a budget of 512 and 32 decodes the gain is {100 * share:.0f} % of the time of the chunks alone. \
Smaller steps gain and cost more; what they win over whole prompts is mostly \
that there are more decode steps to hide in. The number of decodes from which on chunks lose, as long as at least \
half of a step is prompt:

{turning()}

With two attention calls they hardly ever lose. With one call for both they do from {few} to {many} decodes on: \
decodes that ride in the chunks' kernel are slow, and what is saved on weights is lost on reading KV. And the budget \
has to hold the decodes: a chunk of a full 512 beside 8 decodes, 520 tokens, is a tile more for every GEMM, and gain \
less cost is {(gain - cost) * 1e6:+.1f} us a token.

{quoted(command, "Mixed", 3)}

(The command line prices one call for both, with the borrowed fit.)
"""


def page() -> str:
    """The page as markdown."""
    sections = capacity_section(), chunk_section(), budget_section(), riding_section()
    return "".join((QUESTION, short(), INTRO, *sections)).rstrip("\n")


if __name__ == "__main__":
    print(page())
