"""costmodel: is the KV copy cheaper than the interference it replaces?

The names below are the library. Each is imported when it is first asked for, so that ``import costmodel``
costs next to nothing; numpy, sympy and pint are imported by the calls that need them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import Options as Options
    from .deployment import Deployment as Deployment
    from .deployment import Settings as Settings
    from .errors import CostmodelError as CostmodelError
    from .errors import InputError as InputError
    from .errors import NoAnswerError as NoAnswerError
    from .families import read_model as read_model
    from .formulas import BOOK as BOOK
    from .formulas import formula_named as formula_named
    from .handover import Handover as Handover
    from .handover import analyse_transfer as analyse_transfer
    from .hardware import load_gpu as load_gpu
    from .instance import Parallelism as Parallelism
    from .instance import make_instance as make_instance
    from .kv import kv_bytes as kv_bytes
    from .link import load_connector as load_connector
    from .link import load_link as load_link
    from .memory import kv_pool as kv_pool
    from .parameters import count_parameters as count_parameters
    from .questions.break_even import ask_break_even as ask_break_even
    from .questions.kv import ask_kv as ask_kv
    from .questions.recommend import ask_recommend as ask_recommend
    from .questions.step import ask_step as ask_step
    from .questions.transfer import ask_transfer as ask_transfer
    from .recommend import recommend as recommend
    from .scenario import Scenario as Scenario
    from .step import analyse_step as analyse_step
    from .strategies import Rule as Rule
    from .strategies import RuleKind as RuleKind
    from .trace import read_trace as read_trace
    from .trace import trace_workload as trace_workload
    from .work import Chunk as Chunk
    from .workload import Arrivals as Arrivals
    from .workload import Lengths as Lengths
    from .workload import Request as Request
    from .workload import Slo as Slo
    from .workload import Workload as Workload
    from .workloads import load_workload as load_workload

    __version__: str

__all__ = [
    # what the commands answer, with assumptions and sources
    "ask_recommend",
    "ask_break_even",
    "ask_step",
    "ask_kv",
    "ask_transfer",
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
    "trace_workload",
    # models, GPUs, links
    "read_model",
    "load_gpu",
    "load_link",
    "load_connector",
    "make_instance",
    "Parallelism",
    # bytes and seconds
    "kv_bytes",
    "kv_pool",
    "count_parameters",
    "analyse_step",
    "Chunk",
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
    "comparison": ("Options",),
    "deployment": ("Deployment", "Settings"),
    "errors": ("CostmodelError", "InputError", "NoAnswerError"),
    "families": ("read_model",),
    "formulas": ("BOOK", "formula_named"),
    "handover": ("Handover", "analyse_transfer"),
    "hardware": ("load_gpu",),
    "instance": ("Parallelism", "make_instance"),
    "kv": ("kv_bytes",),
    "link": ("load_connector", "load_link"),
    "memory": ("kv_pool",),
    "parameters": ("count_parameters",),
    "questions.break_even": ("ask_break_even",),
    "questions.kv": ("ask_kv",),
    "questions.recommend": ("ask_recommend",),
    "questions.step": ("ask_step",),
    "questions.transfer": ("ask_transfer",),
    "recommend": ("recommend",),
    "scenario": ("Scenario",),
    "step": ("analyse_step",),
    "strategies": ("Rule", "RuleKind"),
    "trace": ("read_trace", "trace_workload"),
    "work": ("Chunk",),
    "workload": ("Arrivals", "Lengths", "Request", "Slo", "Workload"),
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


class _Package(ModuleType):
    """Keeps the function ``recommend`` public: importing a submodule of that name would take its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
