"""Named points at which tests kill the process, to prove that nothing is lost or spent twice.

`TASKVEIL_KILL_AT=7` ends the process with SIGKILL at the seventh point it passes; `TASKVEIL_KILL_LOG=file` lists the points
passed. Without these variables a point does nothing.
"""

from __future__ import annotations

import os
import signal

_passed = 0


def point(name: str) -> None:
    """One place where a crash is interesting."""
    global _passed
    kill_at, log = os.environ.get("TASKVEIL_KILL_AT"), os.environ.get("TASKVEIL_KILL_LOG")
    if kill_at is None and log is None:
        return
    _passed += 1
    if log is not None:
        with open(log, "a") as file:
            file.write(f"{name}\n")
    if kill_at is not None and _passed == int(kill_at):
        os.kill(os.getpid(), signal.SIGKILL)
