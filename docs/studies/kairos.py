"""Kairos, arXiv 2607.02043: which mechanisms give its published shares of P95 TTFT, and what deflection is worth.

    python docs/studies/kairos.py > docs/studies/kairos.md

One to two minutes where replay is compiled, several otherwise.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from functools import cache

from common import Rows, table
from kairos_busy import busy_section
from kairos_deflection import deflection_section
from kairos_figures import CUT, EXECUTION_SHARE, PUBLISHED, SHORT_TOKENS, SHORT_TRANSFER, TRANSFER_SHARE
from kairos_leverage import leverage_section
from kairos_mechanisms import shares
from kairos_runs import bench, prefill_s
from kairos_shares import shares_section, telling_section
from kairos_short import short_section

from costmodel.inputs.link import load_link
from costmodel.serving.handover import Handover

#: P95 prompt of hphd, as `costmodel show workloads hphd` has it.
PACKAGED_P95 = 22_900
LINKS = ("nvlink3", "ib-hdr", "eth-25")


@cache
def implied_prompt(time_s: float) -> int:
    """The longest prompt whose prefill, alone, takes at most so long."""
    return bisect_right(range(1, 262_145), time_s, key=prefill_s)


def path_over(link: str) -> Handover:
    """The copy over another link, one port."""
    return replace(bench().deployment.path, link=load_link(link))


def bytes_rows() -> Rows:
    """Each published transfer beside the time of the bytes of its prompt."""
    prompts: list[tuple[str, int, float | None]] = [("512 tokens", SHORT_TOKENS, SHORT_TRANSFER)]
    prompts += [
        (f"{name}: {1e3 * own.execution:,.0f} ms", implied_prompt(own.execution), own.transfer)
        for name, own in PUBLISHED.items()
    ]
    rows: Rows = []
    for label, tokens, transfer in prompts:
        paths = [path_over(link) for link in LINKS]
        times, size = [path.wire_s(tokens) for path in paths], paths[0].wire_bytes(tokens)
        cells = [f"{1e3 * time:.3g} ms" for time in times]
        if transfer is None:
            cells += ["-"] * 4
        else:
            cells += [f"{transfer:.2f} s", *(f"{time / transfer:.2%}" for time in times[1:])]
            cells.append(f"{size / transfer / 1e6:,.0f} MB/s")
        length = tokens if tokens == SHORT_TOKENS else round(tokens, -2)
        rows.append((label, f"{length:,}", f"{size / 1e6:,.0f} MB", *cells))
    return rows


def growth() -> tuple[float, float]:
    """From lpld to hphd: factor of the P95 prompt, and of the published transfer."""
    low, high = PUBLISHED["lpld"], PUBLISHED["hphd"]
    assert low.transfer is not None and high.transfer is not None
    return implied_prompt(high.execution) / implied_prompt(low.execution), high.transfer / low.transfer


QUESTION = f"""\
# Kairos: where P95 TTFT goes, and what deflection is worth

**The question.** Kairos ([arXiv 2607.02043](https://arxiv.org/abs/2607.02043), "Towards Load-Aware Prefill \
Deflection for Disaggregated LLM Serving", July 2026; not arXiv 2605.02329, which has the same name) serves \
DeepSeek-V2-Lite with vLLM 0.18.1 on two prefill and two decode nodes of A100s. It finds prefill execution to be \
{EXECUTION_SHARE[0]:.0%} to {EXECUTION_SHARE[1]:.0%} of P95 TTFT and queueing and KV transfer to be the rest, and \
cuts P95 TTFT by up to {CUT:.0%} by prefilling on decode nodes. Which mechanisms give these shares, can the figures \
tell them apart, and when does deflection cut so much, never trigger, or hurt?

Names of workloads: high or low prefill, then high or low decode, so that *hpld* has long prompts and short outputs, \
*lphd* the reverse.
"""
PUBLISHED_WHERE = f"""
**The published figures.** P95 in ms, each stage a percentile of its own. Shares and the cut are from the abstract; \
the figures of each workload, the transfer's share ({TRANSFER_SHARE[0]:.0%} to {TRANSFER_SHARE[1]:.0%}) and the SM \
utilisation are **secondary**: they come from a summary of section 3.1, and the paper's own text was not read. No \
interconnect, rate, prompt length, output length or SLO is known, so **every workload below is this project's own** \
(`costmodel show workloads hphd` says how it was chosen: its P95 prompt prefills in the published time, so execution \
agrees by construction, to about 2 %).
"""
HOW = """
**What was computed.** The time to copy the KV of prompts as long as the published prefill times imply; replays of \
2P2D, request by request, with one mechanism at a time; deflection at several loads, states of decode and hand-overs; \
busy share, MFU and MBU; shares of TTFT beside elasticities. Step times are those of operators alone; what a current \
vLLM adds around them moves prefill by 2 % or less ([flagship](../../examples/flagship.md)). *Load* is the rate over \
the highest that two prefill GPUs sustain with one prompt a step. Nothing is fitted to the published figures except \
where the text says that a value is read off them. `python docs/studies/kairos.py > docs/studies/kairos.md` makes \
this page.
"""
CLI = """
```console
$ costmodel transfer deepseek-ai/DeepSeek-V2-Lite --tokens 512 --link ib-hdr
...
bytes on the wire      16.4 MB (16,422,912 B)
...
time on a free link    1.29 ms
...
$ costmodel replay hphd --model deepseek-ai/DeepSeek-V2-Lite --hardware a100-sxm-80gb --rate 4.3 --requests 2000 \\
    --strategy disaggregated --strategy deflected
...
                            disagg. 2P2D        deflected
--------------------------  ------------------  ------------------
load/capacity               .91                 .79 kairos
attainment at this rate     74.2 %              99.2 %
P95 TTFT, s (band)+-sample  9.39 > SLO          2.86+-.6
queue|own|stretch|copy|adm  8.94|.42|0|.02|.01  2.08|.74|0|.02|.02
P99 TPOT, ms (band)         25.8                38.8
...
```

`--control 3s` adds seconds to each hand-over, `--slo-tpot 25ms` takes the slack away, `--alpha` sets that of the \
rule, `costmodel explain md1_ttft_elasticity` derives the leverage.
"""


def milliseconds(value: float | None) -> str:
    """Milliseconds to a tenth; - where not known."""
    return "-" if value is None else f"{1e3 * value:,.1f}"


def published_section() -> str:
    """The published figures and what their arithmetic says."""
    rows = [
        (name, *map(milliseconds, (p.queue, p.execution, p.transfer, p.decode_queue, p.ttft)), *shares(p))
        for name, p in PUBLISHED.items()
    ]
    header = ("workload", "prefill queue", "execution", "transfer", "decode queue", "TTFT",
              "execution's share", "transfer's share")  # fmt: skip
    low = PUBLISHED["lpld"]
    assert low.queue is not None and low.transfer is not None and low.decode_queue is not None
    total = low.queue + low.execution + low.transfer + low.decode_queue
    return f"""{table(rows, header)}

No figure is known of lphd. lpld's transfer is {low.transfer / low.ttft:.0%} of its P95 TTFT, outside the claimed \
{TRANSFER_SHARE[0]:.0%} to {TRANSFER_SHARE[1]:.0%}. Its stages add up to {total:.2f} s of {low.ttft:.2f} s: \
percentiles need not add up, but {low.ttft - total:.2f} s are more than queue, execution and decode queue together, \
and no stage has them.
"""


def bytes_section() -> str:
    """What bytes explain."""
    header = ("P95 prefill", "prompt tokens", "KV", "NVLink 3", "HDR port", "25 Gb/s Ethernet", "published \
transfer",
              "HDR's share", "Ethernet's share", "bandwidth to take that long")  # fmt: skip
    prompt, transfer = growth()
    said_s = PUBLISHED["hphd"].execution
    known = [(implied_prompt(own.execution), own.transfer) for own in PUBLISHED.values() if own.transfer]
    explained = [max(path_over(link).wire_s(n) / time for n, time in known) for link in LINKS[1:]]
    return f"""## How much of 4.2 s can the bytes explain?

The prompt that prefills in the published time, alone on its GPU, and the copy of its KV (latents, 31,104 B a token) \
at 74 % of each link's peak, the share that the Mooncake connector reached in vLLM. The same source names 4.2 s \
together with a request of 512 tokens: the first row.

{table(bytes_rows(), header)}

They explain next to nothing: an HDR port explains at most {explained[0]:.1%} of a published transfer, and 25 Gb/s \
Ethernet, a slow link for a cluster of A100s, {explained[1]:.1%}. Nor do published transfers grow with the bytes: \
from lpld to hphd the implied prompt grows {prompt:.1f} times and the published transfer is {transfer:.2f} of what it \
was. A cause that scales with bytes would need a bandwidth that rises with the prompt. This sets P95 beside P95, and \
so assumes that the slowest prefills and the slowest transfers are of the same requests. If a step held several \
prompts, each would be shorter, and its bytes fewer still. The packaged hphd has a P95 prompt of {PACKAGED_P95:,} \
tokens: it was chosen with step times of an earlier date, by which those take the published {said_s:.2f} s; by those \
of this page they take {prefill_s(PACKAGED_P95):.2f} s.
"""


def spaced(text: str) -> str:
    """Text with a space before each per cent sign; in a table it takes the place of one that pads the cell."""
    return re.sub(r"(?<=\d)%( (?= +\|))?", " %", text)


def page() -> str:
    """The page as markdown."""
    parts = (QUESTION, short_section(), PUBLISHED_WHERE, published_section(), HOW, CLI, bytes_section(),
             shares_section(), telling_section(), deflection_section(), busy_section(), leverage_section())  # fmt: skip
    return spaced("\n".join(part.strip("\n") + "\n" for part in parts))


if __name__ == "__main__":
    print(page(), end="")
