"""Prompts and scoring. Scorers run outside the trainer's process, except for puzzles of a file."""
