"""Model families: each adapter turns the ``config.json`` of one model_type into a :class:`Model`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ..data import package_files
from ..errors import InputError, nearest, unknown
from ..inputs.model import Model
from .config import Config, shown
from .deepseek import deepseek_v2, deepseek_v3
from .llama import llama
from .mistral import mistral
from .mixtral import mixtral
from .opt import opt
from .qwen2 import qwen2, qwen2_moe
from .qwen3 import qwen3, qwen3_moe

MODELS = "costmodel._models"

ADAPTERS: dict[str, Callable[[Config], Model]] = {
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "llama": llama,
    "mistral": mistral,
    "mixtral": mixtral,
    "opt": opt,
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
}

LARGEST_FILE = 8 * 2**20
PASS_A_FILE = (
    "(`costmodel show models` lists the packaged ones; for any other model pass the path of its config.json)"
)


def read_model(text: str) -> Model:
    """Return a packaged model by name, or the model of a ``config.json``.

    ``text`` is a name such as ``deepseek-ai/DeepSeek-V2-Lite`` (upper or lower case; the part behind the
    slash will do) or a path. Text with a slash or ending in .json that exists on disk is a path.

    Raises InputError for an unknown name (with the nearest one), a folder, an unreadable file, or with all
    problems of the configuration.
    """
    looks_like_path = "/" in text or text.endswith(".json")
    if looks_like_path and os.path.exists(text):
        return _read_path(Path(text))
    name = _packaged_name(text)
    if name:
        return _read_packaged(name)
    if os.path.exists(text):
        return _read_path(Path(text))
    if text.endswith(".json"):
        raise InputError(f"there is no file {text!r}; expected the path of a config.json")
    names = packaged_models()
    known = names if "/" in text else [name.split("/", 1)[1] for name in names]
    raise InputError(unknown("model", text, known, remedy=PASS_A_FILE))


@lru_cache(maxsize=1)
def packaged_models() -> tuple[str, ...]:
    """Return the names of the packaged models, sorted."""

    stored = [entry.name for entry in package_files(MODELS).iterdir() if entry.name.endswith(".json")]
    return tuple(sorted((name[: -len(".json")].replace("--", "/", 1) for name in stored), key=str.lower))


def parse_config(data: object, where: str, name: str) -> Model:
    """Return the model of a parsed ``config.json``.

    ``where`` is named in errors and, unless the file states its ``_source``, as the source. Raises
    InputError with every problem found, or for a model_type without an adapter.
    """
    if not isinstance(data, dict):
        raise InputError(f"expected a JSON object of fields, found {shown(data)}", where=where)
    model_type = data.get("model_type")
    if not isinstance(model_type, str):
        raise InputError(_no_model_type(data), where=where)
    if model_type not in ADAPTERS:
        raise InputError(_other_model_type(data, model_type), where=where)
    return ADAPTERS[model_type](Config(data, where, name))


def _no_model_type(data: dict[str, object]) -> str:
    expected = f"expected one of {', '.join(ADAPTERS)}"
    if "model_type" in data:
        return f"model_type is {shown(data['model_type'])}; {expected}"
    inside = [key for key, value in data.items() if isinstance(value, dict) and "model_type" in value]
    near = nearest("model_type", data)
    if inside:
        return f"model_type is missing; {inside[0]!r} has one, but nested fields are not read; {expected}"
    return f"model_type is missing; {expected}" + (f"; nearest field present: {near!r}" if near else "")


def _other_model_type(data: dict[str, object], model_type: str) -> str:
    nested = "its sizes are nested in 'text_config'; " if isinstance(data.get("text_config"), dict) else ""
    remedy = f"({nested}known: {', '.join(ADAPTERS)}; other families are refused until a later version)"
    return unknown("model_type", model_type, ADAPTERS, remedy=remedy)


def _packaged_name(text: str) -> str | None:
    wanted = text.lower()
    matches = [name for name in packaged_models() if wanted in (name.lower(), name.split("/", 1)[1].lower())]
    return matches[0] if len(matches) == 1 else None


def _read_packaged(name: str) -> Model:

    file_name = name.replace("/", "--", 1) + ".json"
    content = package_files(MODELS).joinpath(file_name).read_bytes()
    return parse_config(_parse_json(content, file_name), file_name, name)


def _read_path(path: Path) -> Model:
    if path.is_dir():
        inside = path / "config.json"
        cure = f"pass {str(inside)!r}" if inside.is_file() else "expected the path of a config.json"
        raise InputError(f"{str(path)!r} is a folder; {cure}")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError("larger than 8 MiB; expected a config.json", where=str(path))
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return parse_config(_parse_json(content, str(path)), str(path), name)


def _parse_json(content: bytes, where: str) -> object:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}"
        raise InputError(problem, where=where) from error
    if not text.strip():
        raise InputError("the file is empty; expected a JSON object", where=where)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        cut = " (the file ends there: is it cut off?)" if error.pos >= len(text.rstrip()) else ""
        problem = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}{cut}"
        raise InputError(problem, where=where) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a configuration: {error}", where=where) from error
