"""The pages of ``costmodel show``: a listing, or one entry with every value and its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..questions.explain import FormulaEntry
from ..questions.show import HardwareEntry, Listing, ModelEntry, PathEntry, Value, WorkloadEntry
from .explain import formula
from .kv import LAYERS
from .page import Block, Heading, Page, Table, facts, shown, table

Entry = Listing | ModelEntry | HardwareEntry | PathEntry | WorkloadEntry | FormulaEntry

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
    "kv_bytes_per_token": "KV a token, layers that grow",
    "kv_bytes_per_token_all_layers": "KV a token, all layers",
    "fixed_bytes_per_sequence": "KV a sequence, full windows",
    "allowed_tp": "TP that divides it",
}
FITS = {
    "kind": "operator",
    "form": "form",
    "fitted_mape": "fitted error",
    "held_out_mape": "held-out error",
    "held_out_bias": "bias",
    "stack": "stack",
    "borrowed": "borrowed from",
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


def page(answer: Entry, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds sources and notes of efficiencies."""
    if isinstance(answer, Listing):
        return Page(answer.kind.capitalize(), (listing(answer.entries),), answer.about, cite=True)
    if isinstance(answer, ModelEntry):
        blocks: list[Block] = [facts(answer, MODEL), table(answer.layers, LAYERS), *answer.notes]
        return Page(answer.name, tuple(blocks), answer.about, cite=True)
    if isinstance(answer, HardwareEntry):
        return Page(
            f"{answer.name}: {answer.title}", tuple(_hardware(answer, detail)), answer.about, cite=True
        )
    if isinstance(answer, PathEntry):
        words = Table(
            (), tuple((key, shown(key, value)) for key, value in answer.properties.items()), (False, False)
        )
        blocks = [words, *_values(answer.values, answer.absent, answer.about.sources)]
        return Page(f"{answer.name}: {answer.title}", tuple(blocks), answer.about, cite=True)
    if isinstance(answer, WorkloadEntry):
        return Page(answer.name, (facts(answer, WORKLOAD),), answer.about, cite=True)
    return Page(answer.name, tuple(formula(answer)), answer.about, cite=True)


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
    blocks += [Heading(f"Efficiencies: {answer.efficiency_stack}, {answer.efficiency_date}")]
    blocks += [table(answer.efficiencies, FITS)]
    if detail:
        for fit in answer.efficiencies:
            told = ", ".join(f"{key} {value:.4g}" for key, value in fit.parameters.items())
            blocks.append(f"{fit.kind}: {told} (SI). {fit.source}. {fit.note or ''}".strip())
    return blocks
