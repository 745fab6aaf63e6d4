"""Shared set-up: Triton's interpreter where there is no GPU, and the `gpu` marker."""

from __future__ import annotations

import importlib.util
import os

import hypothesis
import pytest

# First calls import and compile things; a wall-clock deadline would only test the machine.
hypothesis.settings.register_profile("steady", deadline=None)
hypothesis.settings.load_profile("steady")


def _has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


HAS_CUDA = _has_cuda()
if not HAS_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before any import of one


def pytest_configure(config: pytest.Config) -> None:
    """Let Triton 3.6's interpreter turn one-element NumPy arrays into loop bounds."""
    config.addinivalue_line("filterwarnings", "ignore:Conversion of an array with ndim:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests on machines without one."""
    if HAS_CUDA:
        return
    skip = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)
