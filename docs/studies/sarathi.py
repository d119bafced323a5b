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
    MEASURED,
    PAPER_LOAD,
    PROMPT,
    RODE,
    STEPS,
    budget,
    budgets,
    chunking,
    decode_1k,
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
from costmodel.serving.work import Chunk

PAPER = "arXiv 2403.02310, OSDI 2024"
ARTEFACT = "github.com/microsoft/sarathi-serve@02d2567, osdi-experiments"


def quoted(command: str, first: str, lines: int) -> str:
    """A command and some lines of what it prints, from the one that begins with ``first``."""
    shown = printed(command)
    start = next(i for i, line in enumerate(shown) if line.startswith(first))
    return "\n".join(["```console", f"$ {command}", "...", *shown[start : start + lines], "...", "```"])


def percent(share: float) -> str:
    """A signed share in percent."""
    return f"{100 * share:+.0f} %"


INTRO = f"""\
# What chunked prefill gains and costs, beside Sarathi-Serve

How many more requests does an engine serve within a limit on the gap between tokens (time between tokens, TBT) when \
it cuts prompts into chunks that share steps with decodes? What does a chunk cost? How large may a step be? \
Sarathi-Serve ({PAPER}) measured:

* 2.6 times the requests of vLLM for Mistral-7B on one A100 (abstract); 3.7 times for Yi-34B TP2 on chat lengths, \
strict SLO. Capacity: the highest Poisson rate with P99 TBT within the SLO and a median scheduling delay of at most \
2 s. SLOs strict and relaxed, of P99 TBT: Mistral-7B 0.1 and 0.5 s, Yi-34B 0.2 and 1 s, LLaMA2-70B 1 and 5 s; token \
budgets 512 and 2,048 (LLaMA2-70B relaxed 1,536).
* Chunks of 512 cost a prompt of Yi-34B at most about 25 %, chunks of 2,048 almost nothing; a chunk of 257 tokens \
can take 32 % more than one of 256.
* SLOs are 5 and 25 times a decode iteration of batch 32 at 4,096 tokens: 20, 40 and 200 ms are implied for the \
three models.

Figures marked *measured* are of the authors' artefact ({ARTEFACT}), which also says: A100 80 GB PCIe, 128 sequences \
at most, whole-prompt steps of up to 8,192 (chat) and 16,384 tokens (arxiv), 2,048 requests a trial, search to 2.5 \
%. Absolute rates stand only in the paper's figures, and the abstract does not say of which lengths and SLO the 2.6 \
is.

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
* *Attention* (the engine's code, sarathi-serve@13f16cf, flashinfer_attention_wrapper.py): one call for the chunks, \
one for the decodes.
* *vLLM of that time*: whole prompts first (`colocated`), up to 8,192 or 16,384 tokens a step.
* *TBT*: every gap between two tokens of a request counts once. `costmodel` reports a mean a request (TPOT), so gaps \
are counted here in its reference evaluator, token by token.
* *Model*: Mistral-7B-v0.1, whose attention has a window of 4,096 tokens. The artefact's configurations name \
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
        "prompts first, /s",
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
    header = ("choice", "prompts first, /s", "chunked, /s", "gain", "against the first row")
    return f"""
## Capacity

{assumptions()}

{capacity_table(found)}

**Mistral-7B**: {strict:.2f} against 2.6. Three samples of {BASE.count} requests (next table) lie \
{100 * (max(samples) / min(samples) - 1):.0f} % apart, so a smaller difference than that says nothing; and the \
abstract does not name the lengths of its 2.6: on arxiv the gain is {found[LONG].gain:.2f}. Two choices, lengths \
and attention calls, move the gain by more than 10 % (next table); they rest on the evidence named above. \
**Yi-34B**: {yi:.2f} against 3.7, {percent(yi / 3.7 - 1)}: the order of the models is right, the size is not. The \
published baseline had slower steps (table of steps below: a decode step of batch 32 takes \
{STEPS["decode"][32]:.0f} ms in the artefact, {decode_1k(32):.0f} ms here), and slower steps raise the gain, as the \
next table shows; that this is the reason is inferred.

Why there is a gain at all. With whole prompts first, each prompt that takes longer than the SLO makes one gap of \
every running decode too long, so the share of such gaps is about the rate of such prompts times the time of a decode \
step. P99 breaks where that share reaches 1 %, while the GPU still has room (median delays are milliseconds there). \
With chunks all gaps stay below the SLO, and only the delay limits the rate: the GPU is full. Under a relaxed SLO \
more prompts fit into a gap whole and the gain falls, for chat to {found[RELAXED].gain:.2f}; in the paper's figure 12 \
it falls, too, from 3.5 at 100 ms to 1.65 at 1 s.

The strict chat case under other choices, with {BASE.count} requests. So short a run ends before the delay has grown, \
and capacities are a little higher than above: compare within this table.

{table(rows, header, "right")}

* *Step time and SLO.* All step times multiplied by f act as an SLO divided by f with all rates divided by f. \
Chunked capacity is not bound by TBT here, so its elasticity to step time is -1 and to the SLO 0; that of prompts \
first to the SLO is {slope:+.2f} (80 to 125 ms), to step time {-1 - slope:+.2f}. The gain therefore moves by \
{slope:+.2f} % for 1 % of step time, and by {-slope:+.2f} % for 1 % of SLO.
* *Length tails.* Fitting before the filter takes away the longest prompts, which cost the most throughput: the \
gain then moves by {percent(other[EARLY].gain / base.gain - 1)}.
* *One attention call.* Had chunks and decodes shared an attention call that does not split the decodes' KV (the fit \
of vLLM 0.19 on an RTX 4090, which `costmodel` uses for A100 by default and marks as borrowed), chunked capacity \
would change by {percent(other[ONCE].chunked / base.chunked - 1)}: beside the lengths the largest choice on this \
page. The two calls follow the engine's code.
"""


def chunk_section() -> str:
    """The price of chunking."""
    worst = max(slower(length, 512) for length in MEASURED)
    most = max(by[512] / by[16384] for by in MEASURED.values())
    command = (
        f"costmodel step {YI} --hardware {GPU} --tp 2 --phase prefill --isl 4096 --chunk 512 --chunk 2048"
    )
    return f"""
## What a chunk costs

A prompt of Yi-34B on two A100s, alone: its time in chunks over its time whole. What chunks add has six causes, in \
percent of the whole prefill: earlier KV read again (formula `chunk_kv_reread` at the peak bandwidth), the rest of \
attention (tiles that do not fill the processors, and starts), smaller GEMMs, all-reduces, launches and element-wise \
operators, and the host (what stack vllm-2026 adds to the ratio). Messages of 512 tokens take vLLM's own all-reduce, \
longer ones NCCL's, which is why the time of collectives can fall.

{chunking()}

{quoted(command, "  chunk", 4)}

* *Published: 512 at most about 25 %.* Computed at most {percent(worst - 1)}, measured in the artefact at most \
{percent(most - 1)}. Re-reading KV is never more than {100 * shares(16383, 512)["KV re-read"]:.1f} %; small GEMMs \
and unfilled attention tiles make nearly all of it.
* *Published: 2,048 almost negligible.* Computed {percent(slower(4095, 2048) - 1)} at 4,095 tokens, \
{percent(slower(16383, 2048) - 1)} at 16,383. Measured, it is negative for long prompts: whole prefills are slower \
than chunks of 2,048 from 8,191 tokens on.
* *What disagrees.* Measured cost falls with the prompt, computed cost rises. Of the stacks at hand only \
splitwise-2023 has the same fall (last column): it loses time on all-reduces of large messages, which a whole prompt \
sends and chunks do not. That the artefact's engine had the same loss is inferred. Operator times do not explain why \
1,024 costs as much as 512 there.
* *257 against 256.* One step of 257 tokens against one of 256: {percent(quantised(YI, 2) - 1)} (Yi-34B TP2) and \
{percent(quantised(MISTRAL, 1) - 1)} (Mistral-7B), up to +32 % published; whole tiles of 128 rows alone would be \
{percent(float(tile_fill(257, 128)) - 1)} (formula `tile_fill`), were the whole step GEMMs bound by arithmetic.
"""


def budget_section() -> str:
    """The rule of the token budget."""
    times = times_of(YI, 2)
    longer = STEPS["decode"][32] - decode_1k(32)
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
* *Budget.* The paper's choices are about half (strict) and a third (relaxed) of what these step times allow. The \
likely reason is not the rule but the engine's steps, which are longer than these. The artefact's own steps of Yi-34B \
TP2, beside those computed:

{steps()}

With a decode step {longer:.0f} ms longer, as measured at batch 32, the strict budget of Yi-34B would be \
{budget(times, 0.2 - longer / 1e3, PAPER_LOAD):,} tokens, near the 512 chosen. (In the engine's code decodes run \
through a kernel of prefills, which may be why measured decode steps grow that fast with the batch.) The measured \
{STEPS["decode"][32]:.0f} ms, of 1k contexts, also contradict the 40 ms implied by the SLO; both are the authors'. \
The relaxed budget of 2,048 is not set by the SLO: it is where chunking no longer costs anything (inferred).
"""


def riding_section() -> str:
    """What riding along gains beside what chunking costs."""
    found, times = rode(), times_of(MISTRAL, 1)
    rows = [(name, f"{found[name]:.1f} ms", f"{ms:.1f} ms") for name, ms in RODE.items()]
    mixed, step = times.step((Chunk(480, 2048),), 0, 32, 32 * CONTEXT), times.decode(32, 32 * CONTEXT)
    share = 1 - (mixed - step) / (times.step((Chunk(480, 2048),), 0, 0, 0))
    gain, cost = riding(times, 512 + 8, 8)
    command = f"costmodel step {MISTRAL} --hardware {GPU} --phase mixed --batch 32 --context {CONTEXT}"
    command += " --cached 2048 --chunk 480"
    return f"""
## What riding along gains

A mixed step reads the weights once for its chunk and its decodes. Yi-34B TP2, 1,024 tokens:

{table(rows, ("step", "computed", "measured"), "right")}

Three decodes beside a chunk cost next to nothing, measured and computed alike, though the steps themselves are \
longer in the artefact.

Mistral-7B: a prompt of {PROMPT:,} tokens, in steps of a budget that holds the decodes, too (of {CONTEXT:,} tokens \
each). Gain: the chunks alone and as many decode steps alone, less the mixed steps. Cost: the chunks alone less the \
prompt whole. Both in microseconds a prompt token (the prompt whole takes \
{times.prefill(PROMPT) / PROMPT * 1e6:.1f}):

{riders(times)}

Gain exceeds cost throughout: chunks that ride along take the GPU less time than the prompt whole and the decode \
steps apart. At a budget of 512 and 32 decodes a mixed step hides {100 * share:.0f} % of the chunk's own time (the \
share *p* of `costmodel break-even`). Smaller steps gain and cost more; what they win over whole prompts is mostly \
that there are more decode steps to hide in. The number of decodes from which on chunks lose, as long as at least \
half of a step is prompt:

{turning()}

With two attention calls they hardly ever lose. With one call for both they do from 10 to 20 decodes on: decodes that \
ride in the chunks' kernel are slow, and what is saved on weights is lost on reading KV. And the budget has to hold \
the decodes: a chunk of a full 512 beside 8 decodes, 520 tokens, is a tile more for every GEMM, and gain less cost is \
{(gain - cost) * 1e6:+.1f} us a token.

{quoted(command, "Mixed", 3)}

(The command line prices one call for both, with the borrowed fit.)
"""


def page() -> str:
    """The page as markdown."""
    sections = capacity_section(), chunk_section(), budget_section(), riding_section()
    return "".join((INTRO, *sections)).rstrip("\n")


if __name__ == "__main__":
    print(page())
