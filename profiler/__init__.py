"""Runs models on a machine, captures them, and is the command line."""
