"""Decoding in other processes: a trace of gigabytes uses every core.

Each worker is a fresh interpreter that gets texts through shared memory and answers with tables through a
socket. It ends when the socket closes, so it cannot outlive its parent; if it dies, the parent decodes
what the worker had.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, Final

from traces.errors import UsageError
from traces.lean import system_memory, without_pandas
from traces.readers.columns import decode
from traces.readers.events import DECODE_ERRORS, array, elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from traces.readers.batch import Batch

SLOT: Final = 3 << 20
SLOTS_PER_WORKER: Final = 2
# Smaller inputs are read sooner than an interpreter starts.
WORTHWHILE: Final = 96 << 20
POSSIBLE: Final = os.name == "posix" and bool(sys.executable)
_DEAD: Final = (EOFError, OSError)


def jobs(asked: int | None = None) -> int:
    """How many processes decode: as asked, else KERNELGAP_JOBS, else one a core (4 at most).

    Raises UsageError if KERNELGAP_JOBS is no positive number.
    """
    if asked is not None:
        return asked
    if setting := os.environ.get("KERNELGAP_JOBS", ""):
        if not setting.isdecimal() or not int(setting):
            raise UsageError(f"KERNELGAP_JOBS={setting}: not a positive number of processes")
        return int(setting)
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def strict(text: bytes | memoryview) -> Batch | None:
    """Decode `[event, event, ...]` here; None if it is not strict JSON."""
    try:
        return decode(text)
    except DECODE_ERRORS:
        return None


def here(text: bytes) -> Callable[[], Batch | None]:
    """Decode in this process, when the result is asked for."""
    return lambda: strict(array(text))


class Worker:
    """One child process, the slots of shared memory it reads from, and the texts it has not answered."""

    def __init__(self) -> None:
        self.memory, handle = _shared(SLOT * SLOTS_PER_WORKER)
        self.free = list(range(SLOTS_PER_WORKER))
        self.asked: deque[Task] = deque()
        self.ready = False
        self.link, theirs = Pipe()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from traces.readers.workers import serve; serve({theirs.fileno()}, {handle})"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), handle),
        )
        theirs.close()
        os.close(handle)

    def send(self, task: Task) -> None:
        """Hand over a text; a slot must be free. Never blocks: the message is a few bytes."""
        task.slot = self.free.pop()
        text = memoryview(task.text)[elements(task.text) :]
        at, size = task.slot * SLOT, len(text) + 2
        self.memory[at : at + 1] = b"["
        self.memory[at + 1 : at + size - 1] = text
        self.memory[at + size - 1 : at + size] = b"]"
        self.asked.append(task)
        self.link.send((at, size))

    def receive(self) -> None:
        """Take one answer, or the word that the worker is ready."""
        answer = self.link.recv()
        if not self.ready:
            self.ready = True
            return
        task = self.asked.popleft()
        task.answer, task.done = answer, True
        self.free.append(task.slot)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.link.close()
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BufferError):
            self.memory.close()


class Task:
    """A text under way and, when it is `done`, its answer (None: not strict JSON)."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.slot = 0
        self.done = False
        self.answer: Batch | None = None


class Pool:
    """Workers that decode stretches; `submit` has the signature that `EventStream` asks for."""

    def __init__(self, count: int) -> None:
        self.workers = [Worker() for _ in range(count)]
        self.ahead = count * SLOTS_PER_WORKER

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.close()

    def wait_until_ready(self) -> None:
        """Wait until every worker has started or died. `submit` need not wait: it decodes here meanwhile."""
        while not all(w.ready for w in self.workers):
            self._take_answers(None)

    def submit(self, text: bytes) -> Callable[[], Batch | None]:
        """Give `text` to the idlest worker; decode it here if none is ready or it is too large."""
        self._take_answers(0)
        able = [w for w in self.workers if w.ready and w.free]
        if not able or len(text) + 2 > SLOT:
            return here(text)
        task, worker = Task(text), min(able, key=lambda w: len(w.asked))
        try:
            worker.send(task)
        except _DEAD:
            self._bury(worker)
        return lambda: self._result(task)

    def _result(self, task: Task) -> Batch | None:
        while not task.done:
            if not any(task in w.asked for w in self.workers):
                return strict(array(task.text))  # its worker died
            self._take_answers(None)
        return task.answer

    def _take_answers(self, timeout: float | None) -> None:
        """Receive what has come; with no timeout, wait for something to come."""
        if not self.workers:
            return
        came = wait([w.link for w in self.workers], timeout)
        for worker in [w for w in self.workers if w.link in came]:
            try:
                worker.receive()
            except Exception:  # a torn message may fail to unpickle in any way
                self._bury(worker)

    def _bury(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.asked.clear()
        worker.close()


def _shared(size: int) -> tuple[mmap.mmap, int]:
    """Memory that a child can map by the file descriptor given with it."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("kernelgap")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, size)
    return mmap.mmap(handle, size), handle


def serve(socket: int, handle: int) -> None:
    """What a worker process does: answer texts until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, and that ends us
    system_memory()
    without_pandas()
    gc.disable()  # decoded events hold no cycles
    memory = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
    link: Any = Connection(socket)
    with contextlib.suppress(*_DEAD):
        link.send(True)
        while True:
            at, size = link.recv()
            link.send(strict(memory[at : at + size]))
    os._exit(0)
