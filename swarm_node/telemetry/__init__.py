"""Typed events of a run, and the sinks that show or keep them. Nothing here changes training."""
