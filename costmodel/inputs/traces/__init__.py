"""Recorded traces and logs of all usual formats, one request at a time."""

from .facts import TraceFacts, check_trace
from .iterables import requests_of
from .logs import LoggedRequest
from .reader import Trace, read_log, read_trace
from .reading import Notes, Reading
from .replay import recorded_workload, trace_workload, varies
from .reuse import could_be_cached
from .runs import is_log, runs_of

__all__ = [
    "LoggedRequest",
    "Notes",
    "Reading",
    "Trace",
    "TraceFacts",
    "check_trace",
    "could_be_cached",
    "is_log",
    "read_log",
    "read_trace",
    "recorded_workload",
    "requests_of",
    "runs_of",
    "trace_workload",
    "varies",
]
