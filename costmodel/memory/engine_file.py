"""Reading an engine's file: every table and key checked, all problems of the file in one error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from ..data import HARDWARE, Reader, load_toml, locate, resource_names
from ..errors import InputError
from .engine import Engine, Entry, parse_version

FOLDER = "engines"
#: What a log's tokens count, by budget: vLLM's blocks in groups, or pages of all layers.
KV_TOKENS = {
    "share_of_total": ("group", "concurrency"),
    "static_pool": ("pool", "blocks"),
    "share_of_free": ("pool", "blocks"),
}
BUDGETS = tuple(KV_TOKENS)
LARGEST_COUNT = 10**9

#: table -> key -> what it holds: byte, share, number, whole, flag, text or texts.
SCHEMA: dict[str, dict[str, str]] = {
    "rules": {
        **dict.fromkeys(("memory_share", "window_ratio", "tower_factor"), "share"),
        **dict.fromkeys(
            (
                "graphs_subtracted",
                "chunks_as_full",
                "state_every_block",
                "latent_wide_copies",
                "dense_in_groups",
            ),
            "flag",
        ),
        **dict.fromkeys(
            (
                "state_blocks",
                "state_alignment",
                "latent_state_alignment",
                "batches_in_flight",
                "large_batch",
                "sparse_page",
            ),
            "whole",
        ),
        **dict.fromkeys(("group_slack", "state_ratio", "chunk_multiple", "graph_multiple"), "number"),
        **dict.fromkeys(
            ("reserve", "reserve_per_gpu", "least_reserve", "group_reserve", "large_group_reserve"), "byte"
        ),
        "kv_tokens": "text",
    },
    "batch": {
        "memory": "byte",
        "except": "text",
        **dict.fromkeys(
            (
                "max_num_batched_tokens",
                "max_num_seqs",
                "chunked_prefill_size",
                "cuda_graph_max_bs",
                "cuda_graph_max_bs_tp4",
            ),
            "whole",
        ),
    },
    "activation": {
        **dict.fromkeys(
            (
                "sampler_bytes",
                "token_hidden_bytes",
                "layer_hidden_bytes",
                "layer_width_bytes",
                "stage_hidden_bytes",
            ),
            "number",
        ),
        "fixed": "byte",
        "towers": "byte",
        "experts_workspace": "flag",
        "fitted_on": "texts",
    },
    "non_torch": {"gpu": "text", "tp": "whole", "pp": "whole", "value": "byte"},
    "graphs": {"gpu": "text", "max_num_seqs": "whole", "value": "byte"},
    "context": {"gpu": "text", "tp": "whole", "value": "byte"},
    "validated": {
        "gpu": "texts",
        "tp": "whole",
        "pp": "whole",
        "kinds": "texts",
        "worst_kv_tokens": "number",
    },
}

#: Rules that the first entry must state, and batch settings, by budget.
_PAGED = ("graphs_subtracted", "group_slack", "chunks_as_full", "state_blocks", "state_alignment",
          "latent_state_alignment", "state_every_block", "batches_in_flight")  # fmt: skip
_STATIC = ("window_ratio", "state_ratio", "chunk_multiple", "graph_multiple", "reserve", "reserve_per_gpu",
           "least_reserve", "group_reserve", "large_group_reserve", "large_batch", "tower_factor")  # fmt: skip
FIRST_RULES = {
    "share_of_total": ("memory_share", "kv_tokens", *_PAGED),
    "static_pool": ("kv_tokens", *_STATIC),
    "share_of_free": ("memory_share", "kv_tokens"),
}
_STEPS = ("max_num_batched_tokens", "max_num_seqs")
FIRST_BATCH = {
    "share_of_total": _STEPS,
    "static_pool": ("chunked_prefill_size", "cuda_graph_max_bs", "cuda_graph_max_bs_tp4"),
    "share_of_free": _STEPS,
}


def engine_names() -> tuple[str, ...]:
    """Return the names of the packaged engines."""
    return resource_names(HARDWARE, FOLDER)


@lru_cache(maxsize=16)
def load_engine(name_or_path: str | Path) -> Engine:
    """Return a packaged engine, or that of a TOML file. Raises InputError with all problems of the file."""
    source = locate(name_or_path, HARDWARE, FOLDER, "engine")
    reader = Reader(load_toml(source), str(source))
    plain = ("name", "title", "budget", "default_version", "newest_version", "block_tokens", "kv_dtypes")
    reader.keys(
        (*plain, "rules", "batch", "sources"), [table for table in SCHEMA if table not in ("rules", "batch")]
    )
    origin = {key: reader.sub("sources").text(key) for key in reader.sub("sources").table}
    budget = reader.choice("budget", BUDGETS)
    tables = {table: _entries(reader, table, origin) for table in SCHEMA}
    _complete(reader, tables, budget)
    default, newest = (_version(reader, key) for key in ("default_version", "newest_version"))
    if default > newest > (0, 0):
        reader.note(f"default_version: {reader.text('default_version')!r} is above the newest_version")
    engine = Engine(
        name=reader.text("name"),
        title=reader.text("title"),
        budget=budget,
        default_version=reader.text("default_version"),
        newest_version=reader.text("newest_version"),
        block_tokens=_count(reader, "block_tokens"),
        kv_dtypes=_texts(reader, "kv_dtypes"),
        tables=tables,
    )
    reader.close()
    return engine


def _complete(reader: Reader, tables: Mapping[str, tuple[Entry, ...]], budget: str) -> None:
    """Note what the first entries leave out: later ones only replace."""
    for table, needed in (("rules", FIRST_RULES), ("batch", FIRST_BATCH)):
        said = tables[table][0].values if tables[table] else {}
        for key in needed.get(budget, ()):
            if key not in said:
                reader.note(
                    f"missing key {key!r} in the first [[{table}]], which a budget of {budget!r} needs"
                )
    for entry in tables["rules"]:
        counted = entry.values.get("kv_tokens")
        known = KV_TOKENS.get(budget, ())
        if counted and known and counted not in known:
            reader.note(
                f"rules.kv_tokens: {counted!r} does not go with a budget of {budget!r} (one of {', '.join(known)})"
            )
    for condition in ("memory", "except"):
        if tables["batch"] and condition in tables["batch"][0].values:
            reader.note(f"the first [[batch]] has a condition, {condition!r}; expected one for every GPU")
    if tables["activation"] and not tables["non_torch"]:
        reader.note("missing tables [[non_torch]]: an engine with [[activation]] needs them")


def _entries(reader: Reader, table: str, origin: Mapping[str, str]) -> tuple[Entry, ...]:
    found = []
    listed = reader.table.get(table, [])
    if not isinstance(listed, list) or not all(isinstance(values, dict) for values in listed):
        reader.note(f"{table}: expected a list of tables, [[{table}]]")
        return ()
    known = SCHEMA[table]
    optional = table in ("rules", "batch")
    for index, values in enumerate(listed):
        one = Reader(values, reader.where, path=f"{table}[{index}]", problems=reader.problems)
        one.keys(("from", "source", *(() if optional else known)), known if optional else ())
        cited = one.text("source")
        if cited not in origin:
            one.note(f"{one.name('source')}: {cited!r} does not stand in [sources]")
        said = {key: _value(one, key, known[key]) for key in values if key in known}
        found.append(Entry(_version(one, "from"), said, origin.get(cited, "")))
    return tuple(sorted(found, key=lambda entry: entry.since))


def _value(reader: Reader, key: str, kind: str) -> Any:
    if kind == "byte":
        return reader.quantity(key, "byte", positive=False)
    if kind == "share":
        return reader.number(key, low=0, high=1, above=True)
    if kind == "number":
        return reader.number(key, low=0)
    if kind == "whole":
        return _count(reader, key)
    if kind == "texts":
        return _texts(reader, key)
    if kind == "flag":
        if not isinstance(reader.table[key], bool):
            reader.note(f"{reader.name(key)}: {reader.table[key]!r} is not true or false")
        return reader.table[key]
    if key == "kv_tokens":
        return reader.choice(key, tuple(dict.fromkeys(chain.from_iterable(KV_TOKENS.values()))))
    return reader.text(key)


def _count(reader: Reader, key: str) -> int:
    found = reader.whole(key, low=1)
    if found > LARGEST_COUNT:
        reader.note(f"{reader.name(key)}: more than {LARGEST_COUNT:,}")
    return min(found, LARGEST_COUNT)


def _texts(reader: Reader, key: str) -> tuple[str, ...]:
    value = reader.table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        reader.note(f"{reader.name(key)}: {value!r} is not a list of texts")
        return ()
    return tuple(value)


def _version(reader: Reader, key: str) -> tuple[int, ...]:
    value = reader.table.get(key, "")
    try:
        return parse_version(value if isinstance(value, str) else "")
    except InputError:
        if key in reader.table:
            reader.note(f'{reader.name(key)}: {value!r} is not a quoted version such as "0.19.0"')
        return (0, 0)
