"""Compile the inner loop of replay where a C compiler is at hand; the same source runs without it, more slowly.

Everything else about the package stands in setup.cfg. An editable install stays as it is written.
"""

from __future__ import annotations

import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = [
    f"costmodel/evaluate/{name}.py"
    for name in (
        "timeline",
        "prefix",
        "tiers",
        "busy",
        "feed",
        "ideal",
        "job",
        "batch",
        "pool",
        "use",
        "server",
        "server_router",
        "moves",
        "replay",
    )
]


def extensions() -> list[Extension]:
    """The compiled modules, or none where the compiler of annotated Python is missing."""
    if "editable_wheel" in sys.argv or "sdist" in sys.argv:
        return []
    flags = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    try:
        from mypyc.build import mypycify

        found: list[Extension] = mypycify([*flags, *CORE], group_name="costmodel")
    except (
        Exception,
        SystemExit,
    ) as error:  # whatever a compiler to come may find wrong, the source still runs
        print(f"costmodel: not compiled ({error!r}); replay runs interpreted", file=sys.stderr)
        return []
    for extension in found:
        extension.optional = True  # a failure is a warning: the package works without
    return found


class Build(build_ext):
    """``build_ext`` for which a missing C compiler is no error."""

    def run(self) -> None:
        """Build what can be built."""
        try:
            super().run()
        except Exception as error:
            print(f"costmodel: not compiled ({error}); replay runs interpreted", file=sys.stderr)
            self.extensions = []


setup(ext_modules=extensions(), cmdclass={"build_ext": Build})
