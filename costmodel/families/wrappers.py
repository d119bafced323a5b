"""Multimodal wrappers: where the language model lies inside the configuration, and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import InputError
from .config import shown

#: Where wrappers keep the configuration of their language model.
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")

#: Wrapper -> family of its language model where the nested configuration states no model_type.
WRAPPERS: dict[str, str] = {}

#: Fields of the wrapper that hold for the language model unless it states its own.
INHERITED = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings", "_source")


def language_model(data: Mapping[str, object], where: str) -> tuple[dict[str, object], str]:
    """Return the fields of the language model of a wrapper, and the path of keys that leads to them.

    A wrapper may also keep them at its top level, beside a ``vision_config`` (Qwen2-VL did); then the path
    is empty. Raises InputError where the nested configuration is no object.
    """
    wrapper = str(data["model_type"])
    bad = next((key for key in NESTED if key in data and not isinstance(data[key], dict)), None)
    if bad:
        raise InputError(
            f"{bad} is {shown(data[bad])}; expected the object of the language model", where=where
        )
    fields, path = nested_fields(data, where)
    if not path or not isinstance(fields.get("model_type"), str):
        fields["model_type"] = WRAPPERS[wrapper]
    return fields, path


def nested_fields(data: Mapping[str, object], where: str) -> tuple[dict[str, object], str]:
    """Return the fields of the language model of any wrapper, known or not; its own where it nests none."""
    key = next((key for key in NESTED if isinstance(data.get(key), dict)), "")
    inner = data.get(key)
    if not isinstance(inner, dict):
        return dict(data), ""
    deeper, path = nested_fields(inner, where) if key == "thinker_config" else (dict(inner), "")
    return _inherit(deeper, data), f"{key}.{path}" if path else key


def _inherit(inner: Mapping[str, object], outer: Mapping[str, object]) -> dict[str, object]:
    given = {key for key in inner if inner[key] is not None}
    if {"torch_dtype", "dtype"} & given:
        given |= {"torch_dtype", "dtype"}
    return {**inner, **{key: outer[key] for key in INHERITED if key in outer and key not in given}}
