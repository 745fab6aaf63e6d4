"""Run a command and see what it costs: wall time, CPU time and the memory of its whole process tree."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_S = 0.02


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds (children included), and the peak of the tree's summed RSS in MB (10^6 bytes)."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(command: Sequence[str]) -> Cost:
    """Run `command` to its end. Linux only. Raises CalledProcessError if it fails.

    RSS counts memory that several processes share once for each of them, so it is an upper bound.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        peak = _Peak(process.pid)
        peak.start()
        _, complaint = process.communicate()
        wall = time.perf_counter() - began
        peak.ended.set()
        peak.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command), stderr=complaint)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    return Cost(wall, cpu, peak.bytes / 1e6)


class _Peak(threading.Thread):
    """Sums the RSS of a process and all that descend from it, again and again."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.bytes, self.ended = root, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_EVERY_S):
            self.bytes = max(self.bytes, sum(map(_rss, _tree(self.root))))


def _tree(root: int) -> list[int]:
    """The process and its descendants."""
    found = [root]
    for pid in found:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except OSError:
            continue
        found += [int(child) for child in children.split()]
    return found


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
