"""A comparison as one HTML file that needs nothing else: no server, no network, no script of a stranger."""
