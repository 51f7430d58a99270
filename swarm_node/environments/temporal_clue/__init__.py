"""Temporal Clue: deduction puzzles (who, with what, where, when, why), generated or from a file of
published ones.
"""
