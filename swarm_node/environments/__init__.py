"""Questions and judging. Everything that runs a scorer runs outside the trainer's process."""
