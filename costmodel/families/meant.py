"""Models as reports name them loosely: with or without words that change no dimension."""

from __future__ import annotations

import re
from functools import lru_cache

from . import packaged_models

#: Words of names that change no dimension: tuning, releases by date or number, contexts, sizes that others leave off.
_LEFT_OFF = re.compile(
    r"(?i)(?<![a-z0-9.])(?:meta|instruct|chat|it|hf|base|thinking|preview|dummy|model|distilled"
    r"|v0\.\d|[0-3]\d{3}|\d+k|1m|671b|685b|176b)(?![a-z0-9.])"
)
#: What may follow a name that is given short: parameters of a token, or of a layout of experts.
_MORE = re.compile(r"a\d+(?:\.\d+)?b|\d+b\d+e")


@lru_cache(maxsize=256)
def model_meant(text: str) -> str | None:
    """Return the packaged name that a loose name means; None where there is none, or several that differ.

    >>> model_meant("Llama 3 70B Instruct"), model_meant("Qwen3-235B"), model_meant("Llama 4")
    ('meta-llama/Meta-Llama-3-70B', 'Qwen/Qwen3-235B-A22B', None)
    """
    wanted = _core(text)
    if not wanted:
        return None
    cores = {name: _core(name) for name in packaged_models()}
    same = [name for name, core in cores.items() if core == wanted]
    if same:
        return min(same, key=lambda name: (len(name), name))
    longer = {
        core: name
        for name, core in cores.items()
        if core.startswith(wanted) and _MORE.fullmatch(core.removeprefix(wanted))
    }
    return longer.popitem()[1] if len(longer) == 1 else None


def _core(name: str) -> str:
    bare = name.strip().rpartition("/")[2].replace("_", "-")
    return re.sub(r"[^a-z0-9.]", "", _LEFT_OFF.sub("", re.sub(r"\(.*?\)|,.*", "", bare)).lower())
