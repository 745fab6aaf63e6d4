"""One view per file; each has `show(pair)`, which draws it."""
