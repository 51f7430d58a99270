"""A run in a browser. A process of its own that reads what a node or a simulation says already; it never writes there."""
