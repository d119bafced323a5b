"""Pipeline stages: which layers each holds, and the part of the model that lies on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import InputError
from ..inputs.model import Model


@dataclass(frozen=True)
class Stage:
    """One stage: its number and first layer from 0, its layers as a model, whether it holds embedding and head."""

    index: int
    start: int
    model: Model
    first: bool
    last: bool


def split_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Return the layers of each stage as vLLM splits them (0.19 to 0.33, distributed/utils.py).

    The remainder goes one each to the last stage but one and those before it: the last holds the head.
    """
    base, rest = divmod(layers, pp)
    counts = [base] * pp
    for place in range(2, rest + 2):
        counts[-place] += 1
    return tuple(counts)


def check_split(layers: int, pp: int, split: Sequence[int]) -> tuple[int, ...]:
    """Return the layers of each stage as given. Raises InputError unless they are ``pp`` and add up."""
    if len(split) != pp or any(count < 1 for count in split) or sum(split) != layers:
        said = ",".join(str(count) for count in split)
        raise InputError(
            f"--pp-layers {said}: expected {pp} whole numbers of at least 1 that add up to {layers}"
        )
    return tuple(split)


def pipeline_stages(model: Model, pp: int, split: Sequence[int] | None = None) -> tuple[Stage, ...]:
    """Return the stages of a model; ``split`` (default: vLLM's) is the number of layers on each."""
    layers = model.layer_count
    counts = split_layers(layers, pp) if split is None else check_split(layers, pp, split)
    order = model.order or tuple(i for i, layer in enumerate(model.layers) for _ in range(layer.count))
    stages, start = [], 0
    for index, count in enumerate(counts):
        part = order[start : start + count]
        held = tuple(
            replace(layer, count=part.count(place))
            for place, layer in enumerate(model.layers)
            if place in part
        )
        places = [place for place in range(len(model.layers)) if place in part]
        renamed = tuple(places.index(place) for place in part)
        own = replace(model, layers=held, order=renamed)
        stages.append(Stage(index, start, own, index == 0, index == len(counts) - 1))
        start += count
    return tuple(stages)
