"""Which adapter reads which model_type. Modules are imported when a model needs them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..inputs.model import Model
from .config import Config

#: model_type -> module of this package; the adapter is its function of the same name.
ADAPTERS: dict[str, str] = {
    "deepseek_v2": "deepseek",
    "deepseek_v3": "deepseek",
    "llama": "llama",
    "mistral": "mistral",
    "mixtral": "mixtral",
    "opt": "opt",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3",
}


def adapter(model_type: str) -> Callable[[Config], Model]:
    """Return the adapter of a known model_type."""
    module = import_module(f".{ADAPTERS[model_type]}", __package__)
    found: Callable[[Config], Model] = getattr(module, model_type)
    return found
