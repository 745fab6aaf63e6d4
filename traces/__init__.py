"""The kernel timeline: schema, readers, attribution, ledger, analysis and store (no torch, no streamlit)."""

__version__ = "0.1.0"
