"""A picture of predicted against measured times: one panel a kind, points by whether a fit has seen them."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..measured.compare import Compared
from ..measured.write import write_whole

SUFFIXES = (".png", ".svg", ".pdf")
#: Points of a panel that are drawn; more hide each other.
MOST = 4000
COLOURS = {"fitted": "tab:gray", "held out": "tab:blue"}


def draw(compared: Sequence[Compared], path: str | Path) -> None:
    """Write the picture. Raises InputError where matplotlib is missing, the suffix is unknown or nothing is there."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"--plot {path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if not compared:
        raise InputError("--plot draws operators, and none were compared")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("--plot needs matplotlib: pip install 'llm-costmodel[plot]'") from None
    kinds = sorted({part.points.kind for part in compared})
    columns = min(3, len(kinds))
    rows = math.ceil(len(kinds) / columns)
    figure = Figure(figsize=(4.5 * columns, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, kind in zip(panels, kinds):
        _panel(panel, kind, [part for part in compared if part.points.kind == kind])
    for panel in panels[len(kinds) :]:
        panel.set_visible(False)
    picture = io.BytesIO()
    figure.savefig(picture, format=suffix.removeprefix("."))
    write_whole({target: picture.getvalue()})


def _panel(panel: Any, kind: str, parts: Sequence[Compared]) -> None:
    import numpy as np

    measured = np.concatenate([part.points.seconds for part in parts]) * 1e6
    predicted = np.concatenate([part.predicted_s for part in parts]) * 1e6
    seen = np.concatenate([part.seen for part in parts])
    for label, chosen in (("fitted", seen), ("held out", ~seen)):
        places = np.flatnonzero(chosen)
        if len(places):
            places = places[:: math.ceil(len(places) / MOST)]
            panel.scatter(
                measured[places], predicted[places], s=3, alpha=0.4, color=COLOURS[label], label=label
            )
    ends = [min(measured.min(), predicted.min()), max(measured.max(), predicted.max())]
    panel.plot(ends, ends, color="black", linewidth=0.8)
    panel.set(xscale="log", yscale="log", title=kind, xlabel="measured, us", ylabel="predicted, us")
    panel.legend(loc="upper left", markerscale=3)
