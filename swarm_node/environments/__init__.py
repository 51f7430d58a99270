"""Questions and scoring. Scorers run outside the trainer's process, but for puzzles of a file."""
