"""Which modules of which layers the lists of a quantised checkpoint name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Literal

#: How an entry without ``re:`` names modules: "exact" by the whole name, "dotted" also all inside it or by the
#: end of a name, "components" anywhere between dots, "glob" is that with wildcards, "substring" any part.
Style = Literal["exact", "dotted", "components", "glob", "substring"]

#: Parts that checkpoints of a family call otherwise than the blocks of this package.
PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "gemma4_text": (("mlp.experts.", "experts."),),
    "granitemoe": (("mlp.", "block_sparse_moe."),),
    "granitemoehybrid": (("mlp.", "block_sparse_moe."),),
    "llama4_text": (("mlp.", "feed_forward."),),
    "minimax": (("mlp.", "block_sparse_moe."),),
    "minimax_m2": (("mlp.", "block_sparse_moe."),),
    "mixtral": (("mlp.", "block_sparse_moe."),),
    "nemotron_h": (("self_attn.", "mixer."),),
    "phimoe": (("mlp.", "block_sparse_moe."),),
}

PREFIXES = (
    "model.layers",
    "language_model.model.layers",
    "model.language_model.layers",
    "backbone.layers",
    "layers",
)
_IN_LAYER = re.compile(
    r"(?:(?:model|language_model|text_model|backbone|transformer|decoder|thinker)\.)*(?:layers|h)\.(\d+)(?:\.(.*))?"
)
_FUSED = {"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj"}
_FUSED |= {"gate_proj": "gate_up_proj", "up_proj": "gate_up_proj"}
_NUMBERED = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
#: Families whose checkpoints number the matrices of their experts and name them no other way.
ONLY_NUMBERED = ("minimax", "minimax_m2", "mixtral", "phimoe")


@lru_cache(maxsize=4096)
def module_names(model_type: str, module: str) -> tuple[str, ...]:
    """Return the names that a module may have within a layer of a checkpoint.

    >>> module_names("mixtral", "mlp.experts.down_proj")
    ('block_sparse_moe.experts', 'block_sparse_moe.experts.0.w2')
    """
    for ours, theirs in PARTS.get(model_type, ()):
        if module.startswith(ours):
            module = theirs + module[len(ours) :]
            break
    parent, _, last = module.rpartition(".")
    lasts = [last, _FUSED[last]] if last in _FUSED else [last]
    if parent.endswith("shared_experts"):
        return tuple(f"{name}.{each}" for name in (parent, parent[:-1]) for each in lasts)
    if not parent.endswith("experts"):
        return tuple(f"{parent}.{each}" if parent else each for each in lasts)
    if model_type in ONLY_NUMBERED:
        return parent, f"{parent}.0.{_NUMBERED.get(last, last)}"
    first = [f"{parent}.0.{each}" for each in (*lasts, _NUMBERED.get(last, last))]
    return (parent, *(f"{parent}.{each}" for each in lasts), *first)


class Matcher:
    """Tells whether a list of entries names a module of a layer.

    Lists may name thousands of modules: entries of one layer are kept by its number; all others, which
    mostly hold for every layer alike, are asked once a module.
    """

    def __init__(self, entries: Iterable[str], style: Style, model_type: str) -> None:
        self._style = style
        self._model_type = model_type
        self._layers: dict[int, set[str]] = {}
        own, self._numbered = [], False
        self._patterns: list[tuple[re.Pattern[str], bool]] = []
        for entry in entries:
            found = None if entry.startswith("re:") else _IN_LAYER.fullmatch(entry)
            if found:
                self._layers.setdefault(int(found[1]), set()).add(found[2] or "")
                continue
            self._numbered = self._numbered or any(sign.isdigit() for sign in entry)
            fused = _is_fused(entry)
            if entry.startswith("re:"):
                self._patterns.append((re.compile(entry[3:]), fused))
            elif fused:
                self._patterns.append((re.compile(_pattern(entry, style)), True))
            else:
                own.append(_pattern(entry, style))
        if own:
            self._patterns.append((re.compile("|".join(own)), False))
        self._known: dict[tuple[object, ...], bool] = {}

    def __call__(self, index: int, module: str) -> bool:
        """Return whether the module of layer ``index`` is named."""
        rests = frozenset(self._layers.get(index, ()))
        key = (rests, module, index if self._numbered else 0)
        if key not in self._known:
            self._known[key] = self._named(key[2], rests, module_names(self._model_type, module))
        return self._known[key]

    def _named(self, index: int, rests: frozenset[str], names: tuple[str, ...]) -> bool:
        if any(_inside(name, rest, self._style) for rest in rests for name in names):
            return True
        full = [f"{prefix}.{index}.{name}" for prefix in PREFIXES for name in names]
        plain = [name for name in full if not _is_fused(name)]
        return any(
            pattern.match(name) for pattern, fused in self._patterns for name in (full if fused else plain)
        )


def by_pattern(entries: Iterable[str], style: Style, model_type: str) -> Callable[[int, str], int | None]:
    """Return what tells the place of the first entry that names a module of a layer."""
    matchers = [Matcher([entry], style, model_type) for entry in entries]
    return lambda index, module: next(
        (place for place, matcher in enumerate(matchers) if matcher(index, module)), None
    )


def _is_fused(name: str) -> bool:
    """Whether a name is of a fused module: ``up_proj`` alone must not find the gate in ``gate_up_proj``."""
    return "qkv" in name or "gate_up" in name


def _inside(name: str, rest: str, style: Style) -> bool:
    """Whether an entry that goes on with ``rest`` behind the number of a layer names a module of it."""
    if style == "exact" or name == rest:
        return name == rest
    if not rest or (style == "glob" and fnmatchcase(name, rest)):
        return True
    return name.startswith(rest if style == "substring" else rest + ".")


def _pattern(entry: str, style: Style) -> str:
    """Return the expression that full names of modules match from their start."""
    name = re.escape(entry)
    if style == "exact":
        return f"(?:{name}$)"
    if style == "substring":
        return f"(?:.*{name})"
    if style == "dotted":
        return rf"(?:{name}(?:\.|$))|(?:(?:.*\.)?{name}$)"
    inside = rf"(?:(?:.*\.)?{name}(?:\.|$))"
    return f"{inside}|(?:{translate(entry)})" if style == "glob" else inside
