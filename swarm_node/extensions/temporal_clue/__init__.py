"""Temporal Clue: deduction puzzles (who, with what, where, when, why), generated or from a file of published ones.

worlds   settings and worlds           clues   clues about a world, and whether they are true
solver   the same as a CP-SAT model    generate  from an address to a puzzle
text     a puzzle in plain English     puzzle_file   puzzles of a file, such as published ones
scoring  from completions to scores    source, environment  questions for the scoring process, and the Environment
"""
