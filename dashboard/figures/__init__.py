"""Charts as pure functions of tables, for pages and for files alike."""
