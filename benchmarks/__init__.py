"""Benchmarks of kernelgap itself: how fast and how lean a trace becomes a run."""
