"""The home of a node: its lock and identity, what its user asked for, and backups of it."""
