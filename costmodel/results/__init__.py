"""Measured results as tools write them: each run becomes a record of what it states and what was measured."""

from .read import is_copies, is_metrics, is_result, is_start, read_results
from .starts import merged

__all__ = ["is_copies", "is_metrics", "is_result", "is_start", "merged", "read_results"]
