"""A run in a browser: a process of its own that reads what a node or a simulation says already."""
