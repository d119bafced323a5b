"""What a user says of the runs that ``check`` examines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..families import read_model
from ..inputs.hardware import load_gpu
from ..inputs.link import load_connector, load_link
from ..inputs.model import Model
from ..inputs.stack import packaged_stack
from ..records import Stated
from ..serving.scenario import Scenario

if TYPE_CHECKING:
    from ..serving.instance import InstanceKind
    from ..serving.table import StepTable


@dataclass(frozen=True)
class CheckOptions:
    """What a user says of the runs: ``scenario`` with an empty model or hardware where the result states it.

    ``passed``: names of what was passed, which counts before what the result states. ``given``: conditions that the
    result does not state. ``wanted``: predict records, too, not only results. ``strategy``: asked for.
    """

    scenario: Scenario = field(default_factory=lambda: Scenario("", ""))
    passed: Collection[str] = ()
    given: Mapping[str, Stated] = field(default_factory=dict, hash=False)
    strategy: str | None = None
    wanted: bool = False
    select: Mapping[str, str] | None = None
    tables: Callable[[InstanceKind], StepTable] | None = None

    def check(self) -> None:
        """Check names that were passed, before any run is looked at. Raises InputError."""
        scenario = self.scenario
        if scenario.model:
            _ = scenario.model if isinstance(scenario.model, Model) else read_model(scenario.model)
        for gpu in (scenario.hardware, scenario.prefill_hardware, scenario.decode_hardware):
            if gpu:
                load_gpu(gpu)
        load_link(scenario.link)
        load_connector(scenario.connector)
        if isinstance(scenario.stack, str | Path):
            packaged_stack(str(scenario.stack))
