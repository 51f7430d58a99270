"""Typed events to a terminal view, JSON lines and a manifest."""
