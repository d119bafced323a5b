"""The page of ``costmodel kv``."""

from __future__ import annotations

from ..memory.fewest import Layouts
from ..questions.capacity import Capacity
from ..questions.kv import KvAnswer
from .page import Block, Code, Heading, Page, Table, facts, table

SIZES = {
    "kv_bytes_per_token": "slope: a token, layers that grow",
    "fixed_bytes_per_sequence": "constant: a sequence, full windows and states",
    "kv_bytes_per_token_all_layers": "a token below every window",
    "kv_bytes": "this sequence",
    "kv_bytes_per_token_per_gpu": "slope on each GPU",
    "kv_bytes_per_gpu": "this sequence, on each GPU",
    "replication": "copies of each byte",
}
MORE_SIZES = {
    "kv_bytes_unwindowed": "this sequence, windows kept in full",
    "kv_bytes_per_token_expanded": "a token, if latents were cached expanded",
}
LAYERS = {
    "count": "layers",
    "kind": "kind",
    "window": "window",
    "bytes_per_token": "a token and layer",
    "state_bytes": "a sequence and layer",
    "kv_bytes": "a layer",
    "kv_bytes_per_gpu": "a layer and GPU",
}
STAGES = {
    "stage": "stage",
    "layers": "layers",
    "kv_bytes_per_token_per_gpu": "a token and GPU",
    "kv_bytes_per_gpu": "this sequence, on each GPU",
}
CAPACITY = {
    "memory_bytes": "memory that the engine sees",
    "budget_bytes": "of which it plans with",
    "weights_bytes": "weights",
    "activation_bytes": "peak activation",
    "non_torch_bytes": "outside torch",
    "cuda_graph_bytes": "CUDA graphs",
    "kv_pool_bytes": "left for KV",
    "kv_pool_low_bytes": "  its band, from",
    "kv_pool_high_bytes": "  its band, to",
    "block_tokens": "tokens of a block",
    "kv_cache_blocks": "blocks",
    "kv_cache_tokens": "KV tokens",
    "max_concurrency": "concurrency at max_model_len",
    "sequence_reserved_bytes": "a sequence, as the engine plans for it",
    "longest_context_tokens": "longest sequence",
    "largest_batch": "sequences of these tokens at once",
}
STAGE_CAPACITY = {
    "stage": "stage",
    "hardware": "GPU",
    "layers": "layers",
    "parameters": "parameters a GPU",
    "weights_bytes": "weights",
    "activation_bytes": "peak activation",
    "non_torch_bytes": "outside torch",
    "kv_pool_bytes": "left for KV",
}
FACTORS = {"name": "what", "bytes": "bytes", "how": "how"}
LAYOUTS = {
    "gpus": "GPUs",
    "instances": "instances",
    "tp": "TP",
    "pp": "PP",
    "ep": "EP",
    "dp_attention": "DP",
    "sequences": "at once, an instance",
    "held": "at once, in all",
}
MOST_LAYOUTS = 8


def page(answer: KvAnswer, detail: bool) -> Page:
    """Return the page of an answer: what fits first; ``detail`` adds other ways to count."""
    split = f", PP{answer.pp}" if answer.pp > 1 else ""
    title = f"KV cache of {answer.model}: {answer.tokens:,} tokens, {answer.kv_dtype}, TP{answer.tp}{split}"
    blocks: list[Block] = [
        *_verdict(answer),
        facts(answer, _sizes(answer, detail)),
        table(answer.layers, LAYERS),
    ]
    if answer.pp > 1:
        blocks.append(table(answer.stages, STAGES))
    if answer.engines:
        blocks += [Heading("Engines side by side, each GPU"), _side_by_side(answer.engines)]
    elif answer.capacity:
        blocks += _capacity(answer.capacity)
    if answer.users is not None:
        shown_rows = (answer.fewest or ())[: None if detail else MOST_LAYOUTS]
        blocks += [
            Heading(f"GPUs that hold {answer.users:,} such sequences at once"),
            table(shown_rows, LAYOUTS),
        ]
        if left := len(answer.fewest or ()) - len(shown_rows):
            blocks.append(f"{left} more with --detail")
    return Page(title, tuple(blocks), answer.about)


def _sizes(answer: KvAnswer, detail: bool) -> dict[str, str]:
    """Rows of the cache's sizes; those that say nothing new are left out."""
    labels = dict(SIZES)
    if answer.tp == answer.pp == 1:
        del labels["kv_bytes_per_token_per_gpu"], labels["kv_bytes_per_gpu"]
    if not answer.fixed_bytes_per_sequence:
        del labels["fixed_bytes_per_sequence"]
    if answer.kv_bytes_per_token == answer.kv_bytes_per_token_all_layers:
        del labels["kv_bytes_per_token_all_layers"]
        labels["kv_bytes_per_token"] = "a token"
    if answer.replication == 1:
        del labels["replication"]
    return labels | MORE_SIZES if detail else labels


def _verdict(answer: KvAnswer) -> list[Block]:
    """What was asked, in one sentence."""
    length = f"{answer.tokens:,} token{'' if answer.tokens == 1 else 's'}"
    if answer.users is not None:
        if not answer.fewest:
            return [f"No layout tried holds a sequence of {length}."]
        best = answer.fewest[0]
        flat = next((each for each in answer.fewest if each.pp == 1), None)
        holds = "GPU holds" if best.gpus == 1 else "GPUs hold"
        many = "sequence" if answer.users == 1 else "sequences"
        said = f"{best.gpus} {holds} {answer.users:,} {many} of {length}: {_layout(best)}."
        if best.pp > 1 and flat:
            said += f" Without pipeline stages {flat.gpus}: {_layout(flat)}."
        return [said]
    capacity = answer.capacity
    if capacity is None or answer.engines:
        return [] if answer.engines else [f"{said}." for said in answer.does_not_fit]
    which = f"{capacity.engine} {capacity.engine_version}, {answer.kv_dtype} KV, {capacity.hardware}"
    if not capacity.largest_batch:
        return [
            f"Not one sequence of {length} fits: the longest is {capacity.longest_held_tokens:,} ({which})."
        ]
    many = "sequence" if capacity.largest_batch == 1 else "sequences"
    return [f"Fits: {capacity.largest_batch:,} {many} of {length} at once ({which})."]


def _layout(each: Layouts) -> str:
    degrees = (("TP", each.tp), ("PP", each.pp), ("EP", each.ep), ("DP", each.dp_attention))
    split = " ".join(f"{name}{degree}" for name, degree in degrees if degree > 1 or name == "TP")
    return f"{each.instances} x {split}"


def explained(answer: KvAnswer) -> list[Block]:
    """Return every factor of the pool, one a line, for each engine."""
    blocks: list[Block] = []
    for capacity in answer.engines or ((answer.capacity,) if answer.capacity else ()):
        blocks += [
            Heading(f"Where the pool of {capacity.engine} comes from, each GPU"),
            table(capacity.factors, FACTORS, binary=True),
            f"{capacity.kv_pool_bytes / 2**30:.4f} GiB are left. KV tokens are {capacity.kv_cache_tokens_mean}.",
        ]
    if answer.does_not_fit and not blocks:
        return ["No pool is left to explain: the bytes missing stand above."]
    return blocks or ["Pass --hardware (without --users) to see where an engine's pool comes from."]


def _capacity(capacity: Capacity) -> list[Block]:
    where = f"{capacity.hardware}, {capacity.engine} {capacity.engine_version}, each GPU"
    rows = tuple(
        (label, f"{cell} {remark}".strip())
        for (label, cell), remark in zip(
            facts(capacity, CAPACITY, binary=True).rows, _remarks(capacity), strict=True
        )
    )
    blocks: list[Block] = [Heading(where), Table((), rows, (False, False))]
    if len(capacity.stages) > 1:
        blocks += [
            Heading(f"Stages; stage {capacity.limiting_stage} limits"),
            table(capacity.stages, STAGE_CAPACITY, binary=True),
        ]
    blocks += [Heading("As the engine logs it"), Code("\n".join(capacity.log_lines), "text")]
    return blocks


def _remarks(capacity: Capacity) -> list[str]:
    """What to know of single rows of a pool."""
    found = dict.fromkeys(CAPACITY, "")
    if capacity.cuda_graph_bytes is not None and not capacity.cuda_graphs_subtracted:
        found["cuda_graph_bytes"] = "(beside the budget: this version does not subtract them)"
    if capacity.missing_reason:
        found["activation_bytes"] = f"({capacity.missing_reason})"
    held = capacity.longest_held_tokens
    if held is None:
        found["longest_context_tokens"] = f"({capacity.longest_reason})"
    elif capacity.longest_context_tokens != held:
        found["longest_context_tokens"] = f"(the model's limit; the pool would hold {held:,})"
    if capacity.layer_groups > 1:
        found["kv_cache_tokens"] = (
            f"({capacity.kv_cache_tokens_mean}; {capacity.layer_groups} groups of layers)"
        )
    return list(found.values())


def _side_by_side(engines: tuple[Capacity, ...]) -> Table:
    columns = [facts(each, CAPACITY, binary=True).rows for each in engines]
    rows = tuple((cells[0][0], *(cell[1] for cell in cells)) for cells in zip(*columns))
    headers = ("", *(f"{each.engine} {each.engine_version}" for each in engines))
    return Table(headers, rows, (False, *(True for _ in engines)))
