"""A reader of ``config.json`` that collects every problem before it raises one error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeVar

from ..errors import InputError, nearest, shorten
from .defaults import origin

T = TypeVar("T")

LARGEST = 10**9

#: Other names of a field, as vLLM 0.33 (transformers_utils/config.py) and transformers 5.24 read them. vLLM's
#: ``top_k`` for experts is left out: it is a sampling parameter in many files.
ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embed", "n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups"),
    "head_dim": ("attention_head_dim",),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_local_experts": ("num_experts", "n_routed_experts", "moe_num_experts"),
    "n_routed_experts": ("num_experts", "num_local_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token",
        "experts_per_token",
        "top_k_experts",
        "moe_topk",
        "moe_k",
    ),
    "n_shared_experts": ("moe_num_shared_experts", "num_shared_experts"),
    "max_position_embeddings": ("n_positions", "seq_length", "max_seq_len", "model_max_length"),
    "torch_dtype": ("dtype",),
    "partial_rotary_factor": ("rotary_pct",),
}

#: Fields whose other names may mean another length.
LENGTHS = {"max_position_embeddings", "torch_dtype", "partial_rotary_factor"}

#: Fields that transformers itself writes as Infinity; none of them is a size (Mamba-2: no upper limit).
UNLIMITED = {"time_step_limit"}


class Config:
    """Typed access to the fields of one configuration.

    A getter that meets a problem records it and returns a placeholder, so that an adapter reads on and the
    user sees all problems at once; :meth:`finish` raises. ``notes`` says which absent fields were taken
    from a published default; ``asked`` are the fields that getters were asked for; ``insisted``: a user
    insists that these are the fields of this family.
    """

    def __init__(
        self, data: Mapping[str, object], where: str, name: str, *, inside: str = "", insisted: bool = False
    ) -> None:
        self.data = data
        self.where = where
        self.name = name
        self.inside = f"{inside}." if inside else ""
        self.model_type = str(data.get("model_type", ""))
        self.problems: list[str] = _not_finite(data)
        self.notes: list[str] = []
        self.asked: set[str] = set()
        self.insisted = insisted
        self._bad: set[str] = set()
        self._other_names: dict[str, str] = {}
        self._other_numbers: dict[str, str] = {}
        self._take_other_names()

    def _take_other_names(self) -> None:
        """Take a field that stands under another of its names, and say so."""
        data = dict(self.data)
        for field, others in ALIASES.items():
            if field not in data:
                found = next((other for other in others if self.data.get(other) is not None), None)
                if found:
                    data[field] = self.data[found]
                    self._other_names[field] = found
            elif field not in LENGTHS:
                self._check_other_names(field, others)
        self.data = data

    def _check_other_names(self, field: str, others: tuple[str, ...]) -> None:
        """Record names of one thing that state different numbers: engines read one or the other."""
        number = self.data[field]
        for other in others:
            stated = self.data.get(other)
            both = type(number) is int and type(stated) is int and stated > 0
            if both and stated != number:
                self._other_numbers[field] = (
                    f"{self.inside}{field} is {number:,} but {other}, another name of it, {stated:,}; "
                    "expected one number"
                )

    def stated_name(self, field: str) -> str:
        """Return the name under which the file states a field."""
        return self._other_names.get(field, field)

    def absent(self, field: str) -> bool:
        """Return whether the field is not there at all."""
        self._ask(field)
        return field not in self.data

    def null(self, field: str) -> bool:
        """Return whether the field is absent or null."""
        self._ask(field)
        return self.data.get(field) is None

    def whole(self, field: str, *, least: int = 1, most: int = LARGEST) -> int:
        """Return a required whole number from ``least`` to ``most``."""
        self._ask(field)
        expected = f"a whole number from {least:,} to {most:,}"
        if field not in self.data:
            return self._missing(field, expected, least)
        value = self.data[field]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            return self._wrong(field, expected, least)
        return value

    def whole_or(self, field: str, default: int, *, least: int = 1, most: int = LARGEST) -> int:
        """Return a whole number; absent: the class default, with a note."""
        if self.absent(field):
            self.defaulted(field, default)
            return default
        return self.whole(field, least=least, most=most)

    def optional(self, field: str, *, least: int = 1, most: int = LARGEST) -> int | None:
        """Return a whole number, or None where the field is absent or null."""
        return None if self.null(field) else self.whole(field, least=least, most=most)

    def nullable(self, field: str) -> int | None:
        """Return a whole number or None; the field must be there."""
        if self.absent(field):
            return self._missing(field, "a whole number or null", 1)
        return self.optional(field)

    def flag(self, field: str, default: bool) -> bool:
        """Return true or false; absent: the class default, with a note."""
        if self.absent(field):
            self.defaulted(field, default)
            return default
        value = self.data[field]
        return value if isinstance(value, bool) else self._wrong(field, "true or false", default)

    def stated_flag(self, field: str) -> bool:
        """Return true or false; the field must be there."""
        return self._missing(field, "true or false", False) if self.absent(field) else self.flag(field, False)

    def text(self, field: str, known: tuple[str, ...]) -> str | None:
        """Return one of the known words, or None where the field is absent or null."""
        self._ask(field)
        value = self.data.get(field)
        if value is None or (isinstance(value, str) and value in known):
            return value
        hint = nearest(value, known) if isinstance(value, str) else None
        meant = f"; did you mean {hint!r}?" if hint else ""
        return self._wrong(field, f"one of {', '.join(known)}{meant}", known[0])

    def words(self, field: str, known: tuple[str, ...], count: int) -> list[str] | None:
        """Return a list of ``count`` known words, or None where the field is absent or null."""
        self._ask(field)
        value = self.data.get(field)
        if value is None:
            return None
        if isinstance(value, list) and len(value) == count and all(word in known for word in value):
            return list(value)
        return self._wrong(field, f"a list of {count:,} words (a layer each) out of {', '.join(known)}", None)

    def indices(self, field: str, below: int) -> list[int]:
        """Return a list of whole numbers from 0 to ``below`` - 1; absent or null: empty, with a note."""
        self._ask(field)
        value = self.data.get(field)
        if value is None:
            self.defaulted(field, "none")
            return []
        if isinstance(value, list) and all(type(index) is int and 0 <= index < below for index in value):
            return list(value)
        return self._wrong(field, f"a list of layer numbers from 0 to {below - 1:,}", [])

    def defaulted(self, field: str, value: object) -> None:
        """Note that an absent field was taken from the class default of this model_type.

        Without such a default the field is missing: a problem.
        """
        said = origin(self.model_type, field)
        if said is None:
            self._missing(field, "a value (no published class states a default that holds)", value)
            return
        shown = str(value).lower() if isinstance(value, bool) else value
        self.notes.append(f"{field} absent: {shown}, {said}")

    def take_default(self, field: str, value: object) -> None:
        """Read an absent field as the class default of this model_type from now on, with a note."""
        if self.absent(field):
            self.defaulted(field, value)
            self.data = {**self.data, field: value}

    def check(self, holds: bool, problem: str, *fields: str) -> None:
        """Record a problem between fields, unless one of them was already found wrong."""
        if not holds and not self._bad.intersection(fields):
            self.problems.append(problem)

    def finish(self) -> None:
        """Raise InputError with all problems, if there are any."""
        if self.problems:
            raise InputError(self.problems, where=self.where)

    def knows(self, *fields: str) -> None:
        """Note fields that this family may hold without effect, or that its adapter reads by itself."""
        self.asked.update(fields)

    def _ask(self, field: str) -> None:
        """Note that an adapter reads a field; a second name with another number is then a problem."""
        self.asked.add(field)
        problem = self._other_numbers.pop(field, None)
        if problem:
            self.problems.append(problem)

    def _missing(self, field: str, expected: str, placeholder: T) -> T:
        if field in self._bad:
            return placeholder
        self._bad.add(field)
        inside = [key for key, value in self.data.items() if isinstance(value, dict) and field in value]
        if inside:
            hint = f"; it is nested in {inside[0]!r}, which this model_type does not use"
        else:
            near = nearest(field, [key for key in self.data if not key.startswith("_")])
            hint = f"; nearest field present: {near!r}" if near else ""
        self.problems.append(f"{self.inside}{field} is missing; expected {expected}{hint}")
        return placeholder

    def _wrong(self, field: str, expected: str, placeholder: T) -> T:
        if field not in self._bad:
            name = self.inside + self._other_names.get(field, field)
            self.problems.append(f"{name} is {shown(self.data[field])}; expected {expected}")
        self._bad.add(field)
        return placeholder


def shown(value: object) -> str:
    """Return a value as JSON writes it, cut to a readable length."""
    return shorten(json.dumps(value, ensure_ascii=False))


def _not_finite(data: Mapping[str, object]) -> list[str]:
    """Name every number that is NaN or infinite, however deep, but for a limit that may be infinite."""
    found, waiting = [], [(key, value) for key, value in data.items() if key not in UNLIMITED]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", inner) for index, inner in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            found.append(f"{path} is {value}; expected a finite number")
    return found
