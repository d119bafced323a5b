"""The smallest and the cheapest deployment for a workload, with its options."""

from __future__ import annotations

from ..inputs.hardware import load_gpu
from ..inputs.prices import prices_for
from ..inputs.workload import Workload
from ..planning.options import PlanOptions
from ..planning.plan import plan
from ..planning.results import PlanAnswer
from ..serving.scenario import Scenario


def ask_plan(scenario: Scenario, workload: Workload, options: PlanOptions | None = None) -> PlanAnswer:
    """Return the plans for a workload, best first; without ``options`` those of the scenario's own GPU.

    The scenario's hardware, degrees, topology and token budget are not looked at: ``options`` say what may be tried.
    Raises InputError for bad names or values.
    """
    own = options or PlanOptions(hardware=(scenario.hardware,))
    names = [load_gpu(name).name for name in own.hardware]
    return plan(scenario, workload, own, prices_for(names, own.provider, own.prices))
