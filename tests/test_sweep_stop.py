"""A sweep that is told to end leaves neither a part of its file nor a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: 40 million points: far more than are answered before the signal comes.
LONG = (
    "step", "Llama-3.1-8B", "--hardware", "h100-sxm", "--phase", "decode", "--batch", "1:2000", "--context", "1:20000",
)  # fmt: skip
#: Run in the background, a process of a shell has SIGINT ignored: not here.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from costmodel.cli import main; main()"
)
MOST_S = 60.0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "name, workers, code",
    (("SIGTERM", 1, 143), ("SIGTERM", 2, 143), ("SIGHUP", 1, 129), ("SIGHUP", 2, 129), ("SIGINT", 2, 130)),
)
def test_a_signal_leaves_nothing_behind(name: str, workers: int, code: int, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("before")
    arguments = ["sweep", *LONG, "-q", "--workers", str(workers), "-o", str(path)]
    command = [sys.executable, "-c", COMMAND, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            begun = time.monotonic()
            while not any(part.stat().st_size for part in tmp_path.glob(".*~steps.csv")):
                assert process.poll() is None and time.monotonic() - begun < MOST_S
                time.sleep(0.05)
            process.send_signal(getattr(signal, name))
            _, said = process.communicate(timeout=MOST_S)
        finally:
            process.kill()
    assert process.returncode == code and b"Traceback" not in said
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
    _no_process_of(process.pid)


def _no_process_of(group: int) -> None:
    """Hold that nobody of a process group runs; the dead may wait a moment for init to take them."""
    begun = time.monotonic()
    while time.monotonic() - begun < 5.0:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes of {group} are left")
