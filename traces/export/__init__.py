"""Runs for other tools: Chrome JSON (Perfetto), CSV. No plotting here: `traces` knows no charts."""
