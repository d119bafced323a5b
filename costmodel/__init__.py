"""costmodel: is the KV copy cheaper than the interference it replaces?

The names below are the library. Each is imported when it is first asked for, so that ``import costmodel``
costs next to nothing; numpy, sympy and pint are imported by the calls that need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .decision.comparison import Options as Options
    from .decision.recommend import recommend as recommend
    from .errors import CostmodelError as CostmodelError
    from .errors import InputError as InputError
    from .errors import NoAnswerError as NoAnswerError
    from .families import read_model as read_model
    from .formulas import BOOK as BOOK
    from .formulas import formula_named as formula_named
    from .inputs.efficiency import load_efficiency as load_efficiency
    from .inputs.hardware import load_gpu as load_gpu
    from .inputs.link import load_connector as load_connector
    from .inputs.link import load_link as load_link
    from .inputs.load import Load as Load
    from .inputs.parameters import count_parameters as count_parameters
    from .inputs.stack import load_stack as load_stack
    from .inputs.step_times import load_steps as load_steps
    from .inputs.tier import load_tier as load_tier
    from .inputs.traces import Reading as Reading
    from .inputs.traces import read_trace as read_trace
    from .inputs.traces import trace_workload as trace_workload
    from .inputs.workload import Arrivals as Arrivals
    from .inputs.workload import Lengths as Lengths
    from .inputs.workload import Request as Request
    from .inputs.workload import Slo as Slo
    from .inputs.workload import Workload as Workload
    from .memory.kv import kv_bytes as kv_bytes
    from .memory.parallelism import Parallelism as Parallelism
    from .planning.options import PlanOptions as PlanOptions
    from .questions.break_even import ask_break_even as ask_break_even
    from .questions.calibrate import ask_calibrate as ask_calibrate
    from .questions.calibrate_copies import ask_calibrate_copies as ask_calibrate_copies
    from .questions.calibrate_requests import ask_calibrate_requests as ask_calibrate_requests
    from .questions.calibrate_stack import ask_calibrate_stack as ask_calibrate_stack
    from .questions.check import ask_check as ask_check
    from .questions.check_options import CheckOptions as CheckOptions
    from .questions.kv import ask_kv as ask_kv
    from .questions.plan import ask_plan as ask_plan
    from .questions.recommend import ask_recommend as ask_recommend
    from .questions.replay import ask_replay as ask_replay
    from .questions.reuse import ask_reuse as ask_reuse
    from .questions.reuse_options import ReuseOptions as ReuseOptions
    from .questions.step import ask_step as ask_step
    from .questions.sweep import Sweep as Sweep
    from .questions.sweep import SweepAnswer as SweepAnswer
    from .questions.sweep import ask_sweep as ask_sweep
    from .questions.transfer import ask_transfer as ask_transfer
    from .questions.validate import ask_validate as ask_validate
    from .records.packaged import load_records as load_records
    from .records.read import read_records as read_records
    from .results import read_results as read_results
    from .serving.closed_loop import Loop as Loop
    from .serving.closed_loop import closed_loop as closed_loop
    from .serving.deployment import Deployment as Deployment
    from .serving.deployment import Settings as Settings
    from .serving.handover import Handover as Handover
    from .serving.handover import analyse_transfer as analyse_transfer
    from .serving.instance import make_instance as make_instance
    from .serving.memory import kv_pool as kv_pool
    from .serving.scenario import Scenario as Scenario
    from .serving.step import analyse_step as analyse_step
    from .serving.strategies import Rule as Rule
    from .serving.strategies import RuleKind as RuleKind
    from .serving.work import Chunk as Chunk
    from .workloads import load_workload as load_workload

    __version__: str

__all__ = [
    # what the commands answer, with assumptions and sources
    "ask_recommend",
    "ask_replay",
    "ask_plan",
    "PlanOptions",
    "ask_break_even",
    "ask_step",
    "ask_kv",
    "ask_transfer",
    "ask_reuse",
    "ReuseOptions",
    "ask_sweep",
    "Sweep",
    "SweepAnswer",
    "ask_validate",
    "ask_check",
    "CheckOptions",
    "ask_calibrate",
    "ask_calibrate_copies",
    "ask_calibrate_requests",
    "ask_calibrate_stack",
    # the comparison
    "Scenario",
    "Settings",
    "Deployment",
    "Options",
    "Rule",
    "RuleKind",
    "recommend",
    # workloads
    "Workload",
    "Lengths",
    "Arrivals",
    "Slo",
    "Request",
    "load_workload",
    "read_trace",
    "Reading",
    "Load",
    "trace_workload",
    # published and measured figures
    "read_records",
    "load_records",
    "read_results",
    # models, GPUs, links
    "read_model",
    "load_gpu",
    "load_efficiency",
    "load_steps",
    "load_stack",
    "load_link",
    "load_connector",
    "load_tier",
    "make_instance",
    "Parallelism",
    # bytes and seconds
    "kv_bytes",
    "kv_pool",
    "count_parameters",
    "analyse_step",
    "Chunk",
    "closed_loop",
    "Loop",
    "analyse_transfer",
    "Handover",
    # the formula book
    "BOOK",
    "formula_named",
    # errors
    "CostmodelError",
    "InputError",
    "NoAnswerError",
    "__version__",
]

_MODULES = {
    "decision.comparison": ("Options",),
    "serving.deployment": ("Deployment", "Settings"),
    "errors": ("CostmodelError", "InputError", "NoAnswerError"),
    "families": ("read_model",),
    "formulas": ("BOOK", "formula_named"),
    "serving.handover": ("Handover", "analyse_transfer"),
    "inputs.hardware": ("load_gpu",),
    "inputs.load": ("Load",),
    "serving.instance": ("make_instance",),
    "memory.parallelism": ("Parallelism",),
    "memory.kv": ("kv_bytes",),
    "inputs.link": ("load_connector", "load_link"),
    "serving.memory": ("kv_pool",),
    "inputs.parameters": ("count_parameters",),
    "inputs.efficiency": ("load_efficiency",),
    "inputs.stack": ("load_stack",),
    "inputs.step_times": ("load_steps",),
    "inputs.tier": ("load_tier",),
    "serving.closed_loop": ("Loop", "closed_loop"),
    "questions.break_even": ("ask_break_even",),
    "questions.calibrate": ("ask_calibrate",),
    "questions.calibrate_copies": ("ask_calibrate_copies",),
    "questions.calibrate_requests": ("ask_calibrate_requests",),
    "questions.calibrate_stack": ("ask_calibrate_stack",),
    "questions.check": ("ask_check",),
    "questions.check_options": ("CheckOptions",),
    "planning.options": ("PlanOptions",),
    "questions.kv": ("ask_kv",),
    "questions.plan": ("ask_plan",),
    "questions.recommend": ("ask_recommend",),
    "questions.replay": ("ask_replay",),
    "questions.reuse": ("ask_reuse",),
    "questions.reuse_options": ("ReuseOptions",),
    "questions.step": ("ask_step",),
    "questions.sweep": ("Sweep", "SweepAnswer", "ask_sweep"),
    "questions.transfer": ("ask_transfer",),
    "questions.validate": ("ask_validate",),
    "decision.recommend": ("recommend",),
    "records.packaged": ("load_records",),
    "records.read": ("read_records",),
    "results": ("read_results",),
    "serving.scenario": ("Scenario",),
    "serving.step": ("analyse_step",),
    "serving.strategies": ("Rule", "RuleKind"),
    "inputs.traces": ("Reading", "read_trace", "trace_workload"),
    "serving.work": ("Chunk",),
    "inputs.workload": ("Arrivals", "Lengths", "Request", "Slo", "Workload"),
    "workloads": ("load_workload",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("llm-costmodel")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
