"""Exhaustive search for SplitK tile configurations, per layer shape, in minutes and resumable.

`space` lists the candidates, `precompile` builds their binaries on all cores, `timing` measures on the GPU,
`search` decides, `store` keeps, `session` runs all shapes within a budget, `end_to_end` checks what it buys.
"""
