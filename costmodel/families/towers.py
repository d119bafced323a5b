"""Vision and audio towers of multimodal wrappers: named always, counted where their structure is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..inputs.model import Model
from .config import Config

TOWERS = ("vision_config", "audio_config")


def with_towers(model: Model, data: Mapping[str, object], config: Config) -> Model:
    """Return the language model of a wrapper with the towers beside it named."""
    present = [key for key in TOWERS if data.get(key) is not None]
    notes = [f"{key}: not counted, its structure is not known" for key in present]
    return replace(model, model_type=str(data["model_type"]), notes=(*model.notes, *notes))
