"""Errors that a person can act on, each carrying the exit code of the command line.

Every message is one line that says what is wrong, where, and what to do next.
"""

from __future__ import annotations


class KernelgapError(Exception):
    """Base of all expected failures; `exit_code` is what the process returns."""

    exit_code = 1


class OutputError(KernelgapError):
    """The output exists already, or cannot be written (disk full, no permission)."""

    exit_code = 1


class UsageError(KernelgapError):
    """Bad flags: unknown model, variant, mode, column or phase."""

    exit_code = 2


class InputError(KernelgapError):
    """A named input is missing, a folder, unreadable, or holds no GPU rows."""

    exit_code = 4


class MissingToolError(KernelgapError):
    """A tool or device that the command needs is not on this machine."""

    exit_code = 5
