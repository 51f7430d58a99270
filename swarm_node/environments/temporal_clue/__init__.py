"""Temporal Clue: deduction puzzles (who, with what, where, when, why), generated or from a file of published ones.

worlds   what can be the case          clues   what can be said, and whether it is true of a world
solver   the same as a CP-SAT model    generate  from an address to a puzzle
text     a puzzle in plain English     published   puzzles of others: prompts read back into clues
scoring  answers to rewards            source, environment  behind the scoring process and behind the Environment seam
"""
