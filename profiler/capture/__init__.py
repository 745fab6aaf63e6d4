"""Capture: run a model variant, time it, and record what its kernels did."""
