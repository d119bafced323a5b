"""A capacity planner's question, by library: how long may prompts get before these GPUs should be split?

    python examples/library_example.py

Four A100s serve DeepSeek-V2-Lite. For three median prompt lengths, at rates that offer the GPUs about the same
work, what is copied, how long a prefill takes, which strategy wins and from how many tokens remote prefill pays.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel import (
    Chunk,
    Lengths,
    Options,
    Scenario,
    Workload,
    analyse_step,
    analyse_transfer,
    load_workload,
    recommend,
)

MEDIANS = (1_000, 4_000, 12_000)
PREFILL_SHARE = 0.2  # of the time of four GPUs, so that even two alone could prefill


def workload(median: int, rate: float) -> Workload:
    """The packaged HPHD workload with another median prompt and rate."""
    base = load_workload("hphd")
    return replace(base, name=f"{median:,} tokens", uncached=Lengths(median, 0.6, 16, 32_768)).at_rate(rate)


def main() -> None:
    """Print one paragraph a prompt length."""
    deployment = Scenario(
        "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", topology="2P2D", link="ib-hdr"
    ).deployment()
    for median in MEDIANS:
        prefill = analyse_step(deployment.prefill, [Chunk(median)])
        copy = analyse_transfer(deployment.path, median)
        rate = PREFILL_SHARE * deployment.gpus / prefill.time_s
        answer = recommend(deployment, workload(median, rate), Options(method="closed"))
        print(f"prompts of {median:,} tokens (median), {rate:.1f} requests/s")
        print(
            f"  prefill   {prefill.time_s * 1e3:.0f} ms ({prefill.low_s * 1e3:.0f} to {prefill.high_s * 1e3:.0f})"
        )
        print(f"  copy      {copy.wire_s * 1e3:.1f} ms for {copy.wire_bytes / 1e6:.0f} MB")
        for result in answer.strategies:
            delay = "no mean" if result.mean_delay_s is None else f"{result.mean_delay_s:.2f} s"
            print(f"  {result.name:14s}{delay} of delay, utilisation {result.utilisation:.2f}")
        print(f"  verdict   {answer.verdict}: {answer.action}")


if __name__ == "__main__":
    main()
