"""The products of a decode step and of a prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.bench.products import case, products

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profiler.bench.case import Case, Setting


def cases(setting: Setting) -> Iterator[Case]:
    """The five products with the rows of each phase."""
    for phase in ("decode", "prefill"):
        for product in products(setting.config):
            yield case(setting, product, phase)
