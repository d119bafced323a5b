"""Vision and audio towers of multimodal wrappers: named always, counted where their structure is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...inputs.model import Model
from ..common import with_extras
from ..config import Config
from .fields import AbsentField, Counts, Fields, UnknownKind
from .wrapped import COUNTERS

TOWERS = ("vision_config", "audio_config", "encoder_config")
#: Beside a tower in a checkpoint, but not loaded by engines: SigLIP's pooling head.
NOT_LOADED = ("vision_head",)


def with_towers(model: Model, data: Mapping[str, object], config: Config) -> Model:
    """Return the language model of a wrapper with the towers beside it named, and counted where known.

    A tower of unknown structure, or one that lacks a size, is left out and named in the notes. Raises
    InputError for a size that is no whole number.
    """
    wrapper = str(data["model_type"])
    inside = "thinker_config" if isinstance(data.get("thinker_config"), dict) else ""
    outer = Fields(data, "", config.where)
    fields = outer.inside(inside) if inside else outer
    found: Counts = {}
    notes = []
    counters = COUNTERS.get(wrapper, {})
    for key in TOWERS:
        if fields.data.get(key) is not None and key not in counters:
            notes.append(f"{key}: not counted, its structure is not known")
    for key, count in counters.items():
        if fields.data.get(key) is None:
            if key == "vision_config" and key not in fields.data:
                notes.append(f"{fields.path}{key} absent: the tower of {wrapper} is not counted")
            continue
        try:
            found |= count(fields, model.hidden)
        except AbsentField as absent:
            notes.append(f"{absent} absent: the tower in {key} is not counted")
        except UnknownKind as kind:
            notes.append(f"{kind}: not counted, its structure is not known")
    model = replace(model, model_type=wrapper, notes=(*model.notes, *notes))
    if not found:
        return model
    return with_extras(model, *found.items(), loaded=tuple(name for name in found if name not in NOT_LOADED))
