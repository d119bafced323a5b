"""costmodel: is the KV copy cheaper than the interference it replaces?"""

from __future__ import annotations
