"""What a user says of the runs that ``check`` examines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..dtypes import CACHE_BYTES, DTYPE_BYTES
from ..errors import InputError, NoAnswerError, unknown
from ..families import read_model
from ..inputs.efficiency import load_efficiency
from ..inputs.hardware import load_gpu
from ..inputs.link import load_connector, load_link
from ..inputs.model import Model
from ..inputs.stack import packaged_stack
from ..memory.engine import parse_version
from ..memory.engine_file import load_engine
from ..records import Stated
from ..serving.deployment import parse_topology
from ..serving.scenario import Scenario

if TYPE_CHECKING:
    from ..serving.instance import InstanceKind
    from ..serving.table import StepTable


@dataclass(frozen=True)
class CheckOptions:
    """What a user says of the runs: ``scenario`` with an empty model or hardware where the result states it.

    ``passed``: names of what was passed, which counts before what the result states. ``given``: conditions that the
    result does not state. ``engine``: engine and engine_version that ran. ``wanted``: predict records, too, not only
    results. ``reconcile``: try which assumption makes a prediction fit. ``strategy``: asked for. ``select``: rows of
    one run of a log. ``tables``: step times to use.
    """

    scenario: Scenario = field(default_factory=lambda: Scenario("", ""))
    passed: frozenset[str] = frozenset()
    given: Mapping[str, Stated] = field(default_factory=dict, hash=False)
    engine: Mapping[str, str] = field(default_factory=dict, hash=False)
    strategy: str | None = None
    wanted: bool = False
    reconcile: bool = False
    select: Mapping[str, str] | None = None
    tables: Callable[[InstanceKind], StepTable] | None = None

    def check(self) -> None:
        """Check what was passed, before any run is looked at. Raises InputError."""
        scenario, passed = self.scenario, self.passed
        if scenario.model:
            _ = scenario.model if isinstance(scenario.model, Model) else read_model(scenario.model)
        for gpu in (scenario.hardware, scenario.prefill_hardware, scenario.decode_hardware):
            if gpu:
                load_gpu(gpu)
        load_link(scenario.link)
        load_connector(scenario.connector)
        if "topology" in passed:
            parse_topology(scenario.topology)
        if "engine" in passed:
            load_engine(self.engine["engine"])
        if "engine_version" in passed:
            parse_version(self.engine["engine_version"])
        for name, known in (("dtype", DTYPE_BYTES), ("kv_dtype", CACHE_BYTES)):
            value = getattr(scenario, name)
            if name in passed and value not in known:
                raise InputError(unknown(f"--{name.replace('_', '-')}", str(value), known))
        if isinstance(scenario.efficiency, str | Path):
            load_efficiency(scenario.efficiency)
        if isinstance(scenario.stack, str | Path):
            packaged_stack(str(scenario.stack))
        if (
            scenario.model
            and scenario.hardware
            and passed & {"tp", "prefill_tp", "decode_tp", "dtype", "kv_dtype"}
        ):
            with suppress(NoAnswerError):
                scenario.deployment()
