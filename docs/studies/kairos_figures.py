"""What Kairos, arXiv 2607.02043, published: P95 of TTFT and its stages, shares of it, utilisation."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """P95 of TTFT and of its stages, each a percentile of its own, in seconds; None: no figure is known."""

    ttft: float
    execution: float
    transfer: float | None = None
    queue: float | None = None
    decode_queue: float | None = None


#: arXiv 2607.02043, breakdown of P95 TTFT (section 3.1). Secondary: the paper's own text was not read.
PUBLISHED = {
    "lpld": Published(6.2788, 0.1914, 4.2054, 0.0592, 0.0545),
    "hpld": Published(5.7815, 1.3402),
    "hphd": Published(6.2920, 1.2228, 3.5846),
    "bursty": Published(7.8939, 1.0701),
}
#: The same source: shares of P95 TTFT, SM utilisation of both pools, and a P95 transfer beside 512 tokens.
EXECUTION_SHARE, TRANSFER_SHARE, CUT = (0.02, 0.23), (0.22, 0.57), 0.81
SM_PREFILL, SM_DECODE = (0.75, 0.84), (0.07, 0.27)
SHORT_TOKENS, SHORT_TRANSFER = 512, 4.2
#: Figure 1 of the paper, secondary, too: what a chunk adds to a decode step.
CHUNK_ADDS = "at most 30 ms for chunks of up to 512 tokens and more than 200 ms for 2,048"
