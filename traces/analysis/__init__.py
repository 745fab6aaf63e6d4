"""Questions asked of finished runs: breakdown, compare, gaps."""
