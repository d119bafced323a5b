"""Logs of requests of a made-up engine, served token by token by a loop that shares no code with the package."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SEATS, BUDGET = 24, 512
#: Seconds of a step: fixed, of each decode, each cached token, each prompt token, each pair of prompt tokens.
KNOWN = {
    "fixed": 8e-3,
    "sequence": 8e-5,
    "cached_token": 6e-8,
    "prompt_token": 4e-5,
    "pair": 6e-9,
}
RUN = {"gpu": "A100-SXM4-80GB", "model": "Qwen/Qwen3-0.6B", "tp": "1", "max_num_seqs": str(SEATS),
       "max_num_batched_tokens": str(BUDGET), "vllm": "0.0.0"}  # fmt: skip


class Served(NamedTuple):
    """A request and when the engine took notice of it, gave its first token and its last."""

    arrival: float
    prompt: int
    output: int
    queued: float
    first: float
    end: float


def arrivals(count: int, seed: int = 1, rate: float = 6.0) -> list[tuple[float, int, int]]:
    """Requests: arrival in seconds, prompt tokens, output tokens."""
    draw, now, found = random.Random(seed), 0.0, []
    for _ in range(count):
        found.append((now, int(draw.lognormvariate(6.2, 0.7)) + 20, draw.randint(20, 160)))
        now += draw.expovariate(rate)
    return found


def serve(rows: Sequence[tuple[float, int, int]], known: Mapping[str, float] = KNOWN) -> list[Served]:
    """Serve requests step by step: decodes first, then prompts by arrival in what is left of the budget.

    A step is planned when the one before it begins, so that it holds no request that arrived since; a request is
    noticed when the step under way ends.
    """
    waiting, now, before = list(range(len(rows))), 0.0, 0.0
    prompts: list[list[int]] = []  # index, tokens done
    decodes: list[list[int]] = []  # index, context of the next step, steps left
    queued, first, end = ([0.0] * len(rows) for _ in range(3))
    while waiting or prompts or decodes:
        if not prompts and not decodes:
            now = before = max(now, rows[waiting[0]][0])
            queued[waiting[0]] = queued[waiting[0]] or now
        length = known["fixed"]
        for _, context, _ in decodes:
            length += known["sequence"] + known["cached_token"] * context
        budget = BUDGET - len(decodes)
        while waiting and rows[waiting[0]][0] <= before and len(prompts) + len(decodes) < SEATS:
            if budget <= sum(rows[i][1] - done for i, done in prompts):
                break
            prompts.append([waiting.pop(0), 0])
        taken = []
        for place, (i, done) in enumerate(prompts):
            tokens = min(budget, rows[i][1] - done)
            budget -= tokens
            length += known["prompt_token"] * tokens + known["pair"] * tokens * (done + tokens / 2)
            taken.append((place, tokens))
        before, now = now, now + length
        for i in waiting:
            if before < rows[i][0] <= now:
                queued[i] = now
        for decode in decodes:
            decode[1] += 1
            decode[2] -= 1
            if not decode[2]:
                end[decode[0]] = now
        decodes = [decode for decode in decodes if decode[2]]
        for place, tokens in taken:
            prompts[place][1] += tokens
            i, done = prompts[place]
            if done == rows[i][1]:
                first[i] = end[i] = now
                if rows[i][2] > 1:
                    decodes.append([i, done + 1, rows[i][2] - 1])
        prompts = [prompt for prompt in prompts if prompt[1] < rows[prompt[0]][1]]
    return [Served(*row, *times) for row, times in zip(rows, zip(queued, first, end))]


def write_csv(path: Path, served: Sequence[Served], run: Mapping[str, str] = RUN, **drop: Any) -> Path:
    """Write a log as an engine counts: from when it queued a request."""
    rows = [
        {
            **run,
            "arrival_s": one.arrival,
            "prompt_tokens": one.prompt,
            "output_tokens": one.output,
            "ttft_from_queued_s": one.first - one.queued,
            "e2e_from_queued_s": one.end - one.queued,
        }
        for one in served
    ]
    names = [name for name in rows[0] if name not in drop]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_json(path: Path, served: Sequence[Served]) -> Path:
    """Write what a benchmark client saves: times from sending, gaps of tokens after the first."""
    result = {
        "request_throughput": 1.0,
        "start_times": [100 + one.arrival for one in served],
        "input_lens": [one.prompt for one in served],
        "output_lens": [one.output for one in served],
        "ttfts": [one.first - one.arrival for one in served],
        "itls": [
            [(one.end - one.first) / (one.output - 1)] * (one.output - 1) if one.output > 1 else []
            for one in served
        ],
        "errors": [""] * len(served),
    }
    path.write_text(json.dumps(result))
    return path
