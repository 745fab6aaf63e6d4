"""Readers turn one tool's trace files into event tables."""
