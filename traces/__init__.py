"""The kernel timeline: schema, readers, attribution, ledger, analysis and store (no torch, no streamlit)."""
