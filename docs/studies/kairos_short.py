"""The findings of the study of Kairos in short."""

from __future__ import annotations

from kairos_figures import EXECUTION_SHARE, PUBLISHED
from kairos_mechanisms import AT, PLACES, each_seen
from kairos_shares import busy_from, least_sum, least_transfer


def points_off(name: str, load: float) -> tuple[float, float]:
    """The most by which the mechanisms miss the published shares of execution and transfer, in points."""
    said = PUBLISHED[name]
    assert said.transfer is not None
    pairs = [
        (
            own.execution / own.ttft - said.execution / said.ttft,
            own.transfer / own.ttft - said.transfer / said.ttft,
        )
        for own in each_seen(name, load)
    ]
    execution, transfer = (max(100 * abs(off) for off in offs) for offs in zip(*pairs))
    return execution, transfer


def short_section() -> str:
    """What agrees, what does not, and why."""
    near, far, decode = points_off(*AT), points_off("hphd", 0.5), PUBLISHED["lpld"].decode_queue
    waits = [own.decode_queue for own in each_seen(*PLACES[0])]
    return f"""## In short

- *The figures cannot tell mechanisms apart.* Three unlike ones miss hphd's shares by up to {near[0]:.0f} points \
(execution, 19%) and {near[1]:.0f} (transfer, 57%) at a load of 0.8, and by up to {far[0]:.0f} and {far[1]:.0f} at \
0.5. Little of that is a test: the shares follow from execution (by construction) and the two fitted figures, \
transfer and TTFT. Only queue and decode queue are independent, and lpld's load is chosen by its queue. Its decode \
queue is {min(waits):.2f} s where {decode:.2f} is published.
- *Agrees*: plain queueing for prefill has execution of at most {EXECUTION_SHARE[1]:.0%} of P95 TTFT, too, from a load \
of {busy_from():g} on; cuts of about 80% near or over prefill capacity, bought with TPOT.
- *Does not agree*: transfer's share (hphd: the points above; lpld: every mechanism has {least_transfer():.1%} or \
more, published 67%); lpld's stages add up to 0.72 of TTFT, and to {least_sum():.2f} or more here; decode \
utilisation, by each definition that this project has; what chunks of 512 and of 2,048 tokens add to a step, which no \
one prefix fits.
- *Small share, small leverage?* No where the rest is a queue for prefill, yes where slow copies side by \
side are nearly all (lpld); else not decided.
- *Not decided*: why transfers take seconds; it is not for their bytes. Transfer time against prompt length, at idle \
and against output length would decide between these three.
- *Most likely cause of what disagrees*: time outside of the stages at lpld (front end, dispatcher, return of the \
first token), and workloads that are not published. A second load (0.5) and the other values of each knob do not close \
lpld's gap.
"""
