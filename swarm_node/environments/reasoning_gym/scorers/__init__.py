"""Scores answers to reasoning-gym's questions without its own scorers, which evaluate what an
answer says.

Which answers are paid is part of a question's address: raise VERSION in ../catalogue.py with every
change of it, so that peers of both versions refuse each other's groups.
"""
