"""Models as tables and reports call them."""

from __future__ import annotations

from ..errors import InputError
from ..inputs.model import Model
from . import packaged_models, read_model

#: What tables leave off a packaged name, folded.
_ENDINGS = ("", "hf", "base", "instruct")


def model_named(text: str) -> Model:
    """Return the model that a table means: a packaged name, or one that differs in hyphens and ending only.

    Raises InputError where none is called so.
    """
    try:
        return read_model(text)
    except InputError:
        for ending in _ENDINGS:
            for name in packaged_models():
                if _folded(name.rpartition("/")[2]) == _folded(text.rpartition("/")[2]) + ending:
                    return read_model(name)
        raise


def _folded(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
