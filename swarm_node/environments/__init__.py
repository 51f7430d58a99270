"""Prompts and scoring. Scorers run outside the trainer's process."""
