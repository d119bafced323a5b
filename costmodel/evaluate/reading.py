"""Reads of KV tiers in the reference evaluator: each waits its turn at a port, one event at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .instances import Instance
from .tasks import Prompt


@dataclass(eq=False)
class Port:
    """What an instance reads one tier by: one read at a time, first come first served."""

    busy: bool = False
    waiting: deque[Read] = field(default_factory=deque)


@dataclass(eq=False)
class Read:
    """A read that a prompt waits for; ``port`` None: it takes turns with the instance's copies."""

    prompt: Prompt
    inst: Instance
    seconds: float
    port: Port | None
