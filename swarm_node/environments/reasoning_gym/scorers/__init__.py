"""Scores answers to reasoning-gym's questions without its own scorers, which evaluate what an
answer says.
"""
