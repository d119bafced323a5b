"""Figure 1 of DistServe by this project's own step times, and percentages as the page has them."""

from __future__ import annotations

import re
from functools import cache

from common import printed
from distserve_figures import GAIN

STRATEGIES = "                            coloc"
OWN = (
    "costmodel recommend facebook/opt-13b --hardware a100-sxm-80gb --topology 2P1D --link nvlink3 --isl 512 --osl 64 "
    "--rate 4.8 --slo-ttft 400ms --slo-tpot 40ms"
)


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.0f} %"


def signed(share: float) -> str:
    """A change in per cent."""
    return f"{100 * share:+.0f} %"


@cache
def answer(command: str) -> list[str]:
    """The lines that a command prints."""
    return printed(command)


def console(command: str, *starts: str) -> str:
    """A command and the lines of its answer that start with one of these; "..." where others are left out."""
    shown = [line if line.startswith(starts) else "..." for line in answer(command)]
    kept = [line for k, line in enumerate(shown) if line != "..." or not k or shown[k - 1] != "..."]
    return "\n".join([f"$ {command}", *kept])


@cache
def own_goodputs() -> dict[str, float]:
    """Goodput a GPU that ``OWN`` prints, by strategy."""
    shown = answer(OWN)
    heads, cells = (
        re.split(r"  +", next(line for line in shown if line.startswith(start)).strip())
        for start in (STRATEGIES, "goodput/GPU")
    )
    return {head: float(cell.split()[0]) for head, cell in zip(heads, cells[1:])}


def own_section() -> str:
    """The same question by this project's own step times."""
    own = own_goodputs()
    split, whole = own["disagg. 2P1D"], own["colocated"]
    return f"""## By this project's own step times

Step times of operators fitted to other measurements of the A100, without any coefficient of DistServe:

```console
{console("costmodel kv facebook/opt-13b --tokens 576 --hardware a100-sxm-80gb", "a token ", "left for KV", "KV tokens")}
{console(OWN, "DISAGG", "  prefill GPU", "  By goodput", STRATEGIES, "goodput/GPU")}
```

Like for like with {GAIN}x, 2P1D over colocated is {split:.2f} / {whole:.2f} = {split / whole:.2f}x; the ratio of the \
verdict is over chunked, which figure 1 does not have. (At this low rate the verdict prefers another split by mean \
delay.) Kernels alone are faster than either engine was, TPOT is farther below 40 ms, and splitting gains less: how \
much it gains depends on how close steps are to their objective.
"""
