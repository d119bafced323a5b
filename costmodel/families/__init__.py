"""Model families: each adapter turns the ``config.json`` of one model_type into a :class:`Model`."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from ..data import package_files
from ..errors import InputError, nearest, shorten, unknown
from ..inputs.model import Model
from .config import Config, shown
from .registry import ADAPTERS, adapter
from .towers import with_towers
from .wrappers import NESTED, WRAPPERS, fill_defaults, language_model, nested_fields

__all__ = [
    "ADAPTERS",
    "WRAPPERS",
    "adapter",
    "packaged_models",
    "packaged_name",
    "parse_config",
    "read_model",
]

MODELS = "costmodel._models"

#: Where ModelOpt's older checkpoints keep the quantisation that their config.json does not state.
QUANTISATION_BESIDE = "hf_quant_config.json"
INSIST = "(families are listed under `costmodel show families`; --assume-family NAME reads the file as one of them)"
#: Numbers of common configurations that are no sizes.
NO_SIZES = ("rope_theta", "max_position_embeddings", "max_length", "pretraining_tp", "max_window_layers")
BEST_KNOWN = ("llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe", "deepseek_v3")
LARGEST_FILE = 8 * 2**20
PASS_A_FILE = (
    "(`costmodel show models` lists the packaged ones; for any other model pass the path of its config.json)"
)


def read_model(text: str, *, assume_family: str | None = None) -> Model:
    """Return a packaged model by name, or the model of a ``config.json``.

    ``text`` is a name such as ``deepseek-ai/DeepSeek-V2-Lite`` (upper or lower case; the part behind the
    slash will do) or a path. Text with a slash or ending in .json that exists on disk is a path.
    ``assume_family`` reads the configuration as that family's, whatever its model_type; the notes say so.

    Raises InputError for an unknown name (with the nearest one), a folder, an unreadable file, or with all
    problems of the configuration.
    """
    looks_like_path = "/" in text or text.endswith(".json")
    if looks_like_path and os.path.exists(text):
        return _read_path(Path(text), assume_family)
    name = packaged_name(text)
    if name:
        return _read_packaged(name, assume_family)
    if os.path.exists(text):
        return _read_path(Path(text), assume_family)
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


def parse_config(data: object, where: str, name: str, *, assume_family: str | None = None) -> Model:
    """Return the model of a parsed ``config.json``.

    ``where`` is named in errors and, unless the file states its ``_source``, as the source. Of a multimodal
    wrapper the language model is read and its towers are named. Raises InputError with every problem found,
    or for a model_type without an adapter.
    """
    if not isinstance(data, dict):
        raise InputError(f"expected a JSON object of fields, found {shown(data)}", where=where)
    if assume_family is not None:
        return _assumed(data, where, name, assume_family)
    model_type = data.get("model_type")
    if not isinstance(model_type, str):
        raise InputError(_no_model_type(data), where=where)
    if model_type in WRAPPERS:
        fields, path = language_model(data, where)
        inner = str(fields["model_type"])
        if inner not in ADAPTERS:
            said = unknown(f"{path}.model_type", inner, ADAPTERS, remedy=INSIST)
            raise InputError(said, where=where)
        config = Config(fields, where, name, inside=path)
        return with_towers(_adapted(config, model_type), data, config)
    if model_type not in ADAPTERS:
        raise InputError(_other_model_type(data, model_type, where), where=where)
    return _adapted(Config(data, where, name))


def _adapted(config: Config, wrapper: str = "") -> Model:
    fill_defaults(config, wrapper)
    return adapter(config.model_type)(config)


def _assumed(data: dict[str, object], where: str, name: str, family: str) -> Model:
    if family not in ADAPTERS:
        raise InputError(
            unknown("family", family, ADAPTERS, remedy=f"(--assume-family takes {', '.join(ADAPTERS)})")
        )
    fields, path = nested_fields(data, where) if "num_hidden_layers" not in data else (dict(data), "")
    stated = data.get("model_type")
    config = Config({**fields, "model_type": family}, where, name, inside=path, insisted=True)
    model = _adapted(config)
    said = [
        f"model_type {shown(stated)} is read as {family} because --assume-family says so: sizes may be wrong"
    ]
    unread = [key for key, value in fields.items() if key not in config.asked and _is_size(key, value)]
    if unread:
        said.append(f"{family} does not read {', '.join(sorted(unread))}")
    return replace(model, warnings=(*said, *model.warnings))


def _is_size(key: str, value: object) -> bool:
    """Whether a field may be a size that a model's count depends on."""
    number = isinstance(value, int) and not isinstance(value, bool) and value > 1
    return number and not key.endswith(("_token_id", "_token_index", "_id")) and key not in NO_SIZES


def _would_fit(data: dict[str, object], where: str) -> list[str]:
    """Families that could read these fields without a complaint: a hint for --assume-family, never a guess.

    First those that leave few of the file's sizes unread, then the best known, then those that fill in few.
    """
    fields, _ = nested_fields(data, where) if "num_hidden_layers" not in data else (dict(data), "")
    found = []
    for family in ADAPTERS:
        config = Config({**fields, "model_type": family}, where, "")
        try:
            model = _adapted(config)
        except InputError:
            continue
        unread = sum(key not in config.asked and _is_size(key, value) for key, value in fields.items())
        filled_in = sum("absent" in note for note in model.notes)
        found.append((unread, family not in BEST_KNOWN, filled_in, family))
    return [family for *_, family in sorted(found)]


def _no_model_type(data: dict[str, object]) -> str:
    expected = f"expected the name of a family {INSIST}"
    if "model_type" in data:
        return f"model_type is {shown(data['model_type'])}; {expected}"
    inside = [key for key, value in data.items() if isinstance(value, dict) and "model_type" in value]
    near = nearest("model_type", data)
    if inside:
        return (
            f"model_type is missing; {inside[0]!r} has one, but which wrapper it lies in must be known; "
            f"{expected}"
        )
    return f"model_type is missing; {expected}" + (f"; nearest field present: {near!r}" if near else "")


def _other_model_type(data: dict[str, object], model_type: str, where: str) -> str:
    nested = next((key for key in NESTED if isinstance(data.get(key), dict)), None)
    lies = f"its language model lies in {nested!r}; " if nested else ""
    near = _would_fit(data, where)
    close = get_close_matches(model_type.lower(), [*ADAPTERS, *WRAPPERS], n=1, cutoff=0.7)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    said = f"unknown model_type {shorten(model_type)!r}{meant}"
    more = f" and {len(near) - 3} more" if len(near) > 3 else ""
    fits = f"; its fields would be read without complaint as {', '.join(near[:3])}{more}" if near else ""
    return f"{said}{fits} ({lies}{INSIST[1:]}"


def packaged_name(text: str) -> str | None:
    """Return the packaged model that a name means; one without an organisation must be the only one, else None."""
    wanted = text.lower()
    matches = [name for name in packaged_models() if wanted in (name.lower(), name.split("/", 1)[1].lower())]
    return matches[0] if len(matches) == 1 else None


def _read_packaged(name: str, assume_family: str | None) -> Model:
    file_name = name.replace("/", "--", 1) + ".json"
    content = package_files(MODELS).joinpath(file_name).read_bytes()
    return parse_config(_parse_json(content, file_name), file_name, name, assume_family=assume_family)


def _read_path(path: Path, assume_family: str | None) -> Model:
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
    data = _with_quantisation_beside(path, _parse_json(content, str(path)))
    return parse_config(data, str(path), name, assume_family=assume_family)


def _with_quantisation_beside(path: Path, data: object) -> object:
    """Take the quantisation from the file beside a ``config.json``, as engines do where it states none."""
    beside = path.with_name(QUANTISATION_BESIDE)
    stated = ("quantization_config", "compression_config")
    if path.name != "config.json" or not isinstance(data, dict) or any(data.get(key) for key in stated):
        return data
    if not beside.is_file():
        return data
    try:
        content = beside.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(beside)) from error
    return {**data, "quantization_config": _parse_json(content, str(beside))}


def _no_key_twice(pairs: list[tuple[str, object]], where: str) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise InputError(f"{', '.join(twice)}: stands twice in one object; expected once", where=where)
    return found


def _parse_json(content: bytes, where: str) -> object:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}"
        raise InputError(problem, where=where) from error
    if not text.strip():
        raise InputError("the file is empty; expected a JSON object", where=where)
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _no_key_twice(pairs, where))
    except json.JSONDecodeError as error:
        cut = " (the file ends there: is it cut off?)" if error.pos >= len(text.rstrip()) else ""
        problem = f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}{cut}"
        raise InputError(problem, where=where) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a configuration: {error}", where=where) from error
