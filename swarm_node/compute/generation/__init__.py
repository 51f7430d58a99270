"""Prompts in, completions out."""
