"""Which utilisation Kairos's figures are: busy share, MFU and MBU of both pools."""

from __future__ import annotations

from functools import cache

from common import Rows, table
from kairos_figures import SM_DECODE, SM_PREFILL
from kairos_runs import REQUESTS, capacity, play

from costmodel import load_workload
from costmodel.workloads import workload_names


@cache
def uses() -> dict[str, tuple[tuple[float, float, float], ...]]:
    """Busy share, MFU and MBU of the prefill and the decode pool, by load."""
    loads = {f"{name}, {load_workload(name).rate:g} /s": load_workload(name) for name in workload_names()}
    for name in ("lpld", "hpld"):
        packaged = load_workload(name)
        loads[f"{name}, a tenth"] = packaged.at_rate(packaged.rate / 10)
    return {
        label: tuple((use.busy_share, use.mfu, use.mbu) for use in play(workload).pools)
        for label, workload in loads.items()
    }


def while_arriving(name: str) -> float:
    """Busy share of the prefill pool up to the last arrival, not to the last token."""
    run = play(load_workload(name))
    return run.pools[0].busy_share * run.span_s / run.records[-1].request.arrival_s


def busy_rows() -> Rows:
    """The table of both pools."""
    prefill, decode = (f"{low:.0%}-{high:.0%}" for low, high in (SM_PREFILL, SM_DECODE))
    rows: Rows = [("**published, SM utilisation**", prefill, "", "", decode, "", "")]
    return rows + [(label, *(f"{v:.0%}" for pool in pools for v in pool)) for label, pools in uses().items()]


def between(pool: int, measure: int) -> str:
    """Range of a measure over the packaged rates."""
    values = [pools[pool][measure] for label, pools in uses().items() if label.endswith("/s")]
    return f"{min(values):.0%}-{max(values):.0%}"


def busy_section() -> str:
    """Three definitions of utilisation."""
    header = "load", "prefill: busy", "MFU", "MBU", "decode: busy", "MFU", "MBU"
    short = "lphd", "lpld"
    busy = [f"{while_arriving(name):.0%}" for name in short]
    load = load_workload("lphd").rate / capacity("lphd")
    return f"""## Which utilisation is 7 to 27 %?

*Busy* is the share of time with a step under way, MFU and MBU useful FLOPs and fewest bytes over the peak. \
{REQUESTS:,} requests, disaggregated, no mechanism added, at the packaged rates and at a tenth of them.

{table(busy_rows(), header)}

The published {SM_PREFILL[0]:.0%} to {SM_PREFILL[1]:.0%} of prefill nodes is near busy ({between(0, 0)} here; the \
rates of four of the workloads were chosen for about 80 %, so this says only that MFU, {between(0, 1)}, and MBU, \
{between(0, 2)}, are not meant; lphd and lpld have a load of {load:.0%}, too, but their runs are short, and the wait \
for the last output counts as idle: up to the last arrival prefill is {busy[0]} and {busy[1]} busy). The published \
{SM_DECODE[0]:.0%} to {SM_DECODE[1]:.0%} of decode nodes is none of the three at these rates: busy is \
{between(1, 0)}, MFU {between(1, 1)}, MBU {between(1, 2)}. Busy comes down to it only at rates at which prefill nodes \
would idle. One definition that can be high for prefill and low for decode at the same load is the share of SMs that \
work at a moment ([NVML](https://docs.nvidia.com/deploy/nvml-api/api/group__nvmlGpmEnums.html) counts time with any \
kernel, SMs that are busy, and warps that are resident apart): decode kernels of small batches leave most SMs without \
a block. That is inferred; this project has no model of it. Whichever it is, 7 to 27% need not mean idle decode \
nodes: a pool that is 100% busy and at 60% of its memory bandwidth has slack for arithmetic and little else.
"""
