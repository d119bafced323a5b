"""The pages of ``costmodel show``: a listing, or one entry with every value and its source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..questions.explain import FormulaEntry
from ..questions.show import HardwareEntry, Listing, PathEntry, Value, WorkloadEntry
from ..questions.show_engine import EngineEntry, FamilyEntry
from ..questions.show_model import ModelEntry
from ..questions.show_record import RecordEntry
from ..questions.show_stack import StackEntry
from ..questions.show_words import WordEntry
from ..records import Stated
from ..records.conditions import told
from ..units import Dimension, format_si
from .explain import formula
from .kv import LAYERS
from .page import Block, Code, Heading, Page, Table, facts, shown, table
from .stack import stack

Entry = (
    Listing
    | ModelEntry
    | HardwareEntry
    | EngineEntry
    | StackEntry
    | FamilyEntry
    | PathEntry
    | WorkloadEntry
    | RecordEntry
    | WordEntry
    | FormulaEntry
)

MODEL = {
    "model_type": "family",
    "layer_count": "layers",
    "hidden": "hidden size",
    "vocab": "vocabulary",
    "max_context": "longest context",
    "total_parameters": "parameters",
    "active_parameters": "active parameters",
    "extras": "beside them",
    "weight_dtype": "dtype of weights",
    "weight_bytes": "bytes of weights",
    "layout": "spread over",
    "parameters_per_gpu": "parameters of a GPU",
    "weight_bytes_per_gpu": "bytes of them, as engines hold them",
    "kv_bytes_per_token": "KV a token, layers that grow",
    "kv_bytes_per_token_all_layers": "KV a token, all layers",
    "fixed_bytes_per_sequence": "KV a sequence, full windows and states",
    "allowed_tp": "TP that divides it",
}
CONVENTIONS = {
    "active_parameters": "active, head and no input embedding",
    "active_with_embedding": "active, head and input embedding",
    "active_core": "active, neither",
    "embedding_parameters": "lookups: input embedding and positions",
    "weight_bytes_by_format": "bytes of weights by format, with scales",
}
STAGES = {
    "stage": "stage",
    "layers": "layers",
    "parameters": "parameters a GPU",
    "weight_bytes": "weights a GPU",
}
#: Of the layers of a model, what does not depend on the length of a sequence.
LAYERS_OF_A_TOKEN = {
    key: LAYERS[key] for key in ("count", "kind", "window", "bytes_per_token", "state_bytes")
}
FITS = {
    "kind": "operator",
    "form": "form",
    "fitted_mape": "fitted error",
    "held_out_mape": "held-out error",
    "held_out_bias": "bias",
    "error": "error counted",
    "stack": "stack",
    "borrowed": "borrowed from",
}
ENGINE = {
    "budget": "plans with",
    "default_version": "version where none is given",
    "newest_version": "newest version whose rules are known",
    "block_tokens": "tokens of a block",
}
WORD = {
    "unit": "unit",
    "meaning": "meaning",
    "also": "also read as it",
    "asked_as": "audited as",
    "recovered_by": "recovered by",
}
WORKLOAD = {
    "rate_per_s": "rate",
    "properties": "arrivals",
    "uncached_tokens": "uncached prompt tokens",
    "cached_tokens": "cached prompt tokens",
    "output_tokens": "output tokens",
    "slo_ttft_s": "TTFT SLO",
    "slo_tpot_s": "TPOT SLO",
    "attainment": "attainment",
}


def _engine(answer: EngineEntry) -> list[Block]:
    """Each table of an engine's file: a row an entry, the keys of any of them as columns."""
    blocks: list[Block] = [facts(answer, ENGINE)]
    for name, entries in answer.tables.items():
        keys = dict.fromkeys(key for entry in entries for key in entry)
        blocks += [Heading(name), table(entries, {key: key for key in keys}, binary=True)]
    return blocks


def page(answer: Entry, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds sources and notes of efficiencies."""
    if isinstance(answer, Listing):
        return Page(answer.kind.capitalize(), (listing(answer.entries),), answer.about, cite=True)
    if isinstance(answer, ModelEntry):
        blocks: list[Block] = [facts(answer, MODEL), table(answer.layers, LAYERS_OF_A_TOKEN)]
        if len(answer.stages) > 1:
            blocks.append(table(answer.stages, STAGES))
        if detail:
            blocks.append(facts(answer, CONVENTIONS))
        blocks += answer.notes
        return Page(answer.name, tuple(blocks), answer.about, cite=True)
    if isinstance(answer, HardwareEntry):
        return Page(
            f"{answer.name}: {answer.title}", tuple(_hardware(answer, detail)), answer.about, cite=True
        )
    if isinstance(answer, EngineEntry):
        return Page(f"{answer.name}: {answer.title}", tuple(_engine(answer)), answer.about, cite=True)
    if isinstance(answer, StackEntry):
        return Page(answer.name, tuple(stack(answer)), answer.about, cite=True)
    if isinstance(answer, FamilyEntry):
        return Page(answer.name, (answer.reads,), answer.about)
    if isinstance(answer, PathEntry):
        words = Table(
            (), tuple((key, shown(key, value)) for key, value in answer.properties.items()), (False, False)
        )
        blocks = [words, *_values(answer.values, answer.absent, answer.about.sources)]
        return Page(f"{answer.name}: {answer.title}", tuple(blocks), answer.about, cite=True)
    if isinstance(answer, WorkloadEntry):
        told: list[Block] = [
            facts(answer, WORKLOAD),
            Heading("As a file, for --workload"),
            Code(as_toml(answer), "toml"),
        ]
        return Page(answer.name, tuple(told), answer.about, cite=True)
    if isinstance(answer, RecordEntry):
        return Page(
            f"{answer.name}: {answer.title or 'record'}", tuple(_record(answer)), answer.about, cite=True
        )
    if isinstance(answer, WordEntry):
        return Page(answer.name, (facts(answer, WORD),), answer.about)
    return Page(answer.name, tuple(formula(answer)), answer.about, cite=True)


def _record(answer: RecordEntry) -> list[Block]:
    """What a report states, and a row for each of its figures."""
    stated = Table(
        (), tuple((key, told(key, value)) for key, value in answer.conditions.items()), (False, False)
    )
    rows = tuple(
        (
            figure.name,
            figure.metric,
            figure.statistic or "-",
            figure.text,
            _told(figure.conditions),
            figure.note or "",
        )
        for figure in answer.figures
    )
    headers = ("figure", "metric", "statistic", "as printed", "conditions of its own", "note")
    return [stated, Table(headers, rows, (False, False, False, True, False, False))]


def _told(conditions: Mapping[str, Stated]) -> str:
    return ", ".join(f"{key} {told(key, value)}" for key, value in conditions.items()) or "-"


def as_toml(answer: WorkloadEntry) -> str:
    """Return a workload as the text of a file that says the same.

    How it was chosen is left out: with one value changed, that is the user's.
    """
    objectives = {"ttft": answer.slo_ttft_s, "tpot": answer.slo_tpot_s}
    arrivals = {key: value for key, value in answer.properties.items() if value and key != "on_period_s"}
    period = answer.properties["on_period_s"]
    if isinstance(period, float) and period:
        arrivals["on_period"] = _quoted(period, "second")
    tables: dict[str, dict[str, object]] = {
        "arrivals": {"rate": _quoted(answer.rate_per_s, "1/second"), **arrivals},
        "prompt": {**(answer.uncached_tokens or {}), "cached": answer.cached_tokens},
        "output": {**(answer.output_tokens or {})},
        "slo": {key: _quoted(value, "second") for key, value in objectives.items() if value is not None},
    }
    tables["slo"]["attainment"] = answer.attainment
    lines = [f"name = {json.dumps(answer.name)}"]
    for name, values in tables.items():
        lines += ["", f"[{name}]"]
        lines += [f"{k} = {v:.12g}" if isinstance(v, float) else f"{k} = {v}" for k, v in values.items()]
    return "\n".join(lines)


def _quoted(value: float, dimension: Dimension) -> str:
    return f'"{format_si(value, dimension, 12)}"'


def listing(entries: Sequence[Mapping[str, object]]) -> Table:
    """Return a table of entries that share their keys; a header is the key without its unit."""
    keys = entries[0] if entries else {}
    units = ("_flop_per_s", "_bytes_per_s", "_per_s", "_tokens", "_s")
    headers = {}
    for key in keys:
        unit = next((unit for unit in units if key.endswith(unit)), "")
        headers[key] = key.removesuffix(unit).replace("_", " ")
    return table(entries, headers)


def _values(values: Sequence[Value], absent: Mapping[str, str], sources: Sequence[str]) -> list[Block]:
    rows = tuple((value.name, value.text, f"[{sources.index(value.source) + 1}]") for value in values)
    known = Table(("value", "as stated", "source"), rows, (False, True, False))
    if not absent:
        return [known]
    return [known, Heading("Absent"), Table((), tuple(absent.items()), (False, False))]


def _hardware(answer: HardwareEntry, detail: bool) -> list[Block]:
    blocks = _values(answer.values, answer.absent, answer.about.sources)
    if not answer.efficiencies:
        return blocks
    blocks += [Heading(f"Efficiencies: {answer.efficiency_stack}, {answer.efficiency_date}")]
    blocks += [table(answer.efficiencies, FITS)]
    if detail:
        for fit in answer.efficiencies:
            told = ", ".join(f"{key} {value:.4g}" for key, value in fit.parameters.items())
            blocks.append(f"{fit.kind}: {told} (SI). {fit.source}. {fit.note or ''}".strip())
    return blocks
