"""Measured results as tools write them: each run becomes a record of what it states and what was measured."""

from .read import is_result, read_results

__all__ = ["is_result", "read_results"]
