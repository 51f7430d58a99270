"""Scoring in a process of its own, with sandboxed children."""
