"""Hostile nodes in the simulation, and their effect on honest ones.

payloads.py makes poisoned completions. hostile.py has the hostile node, which sends anything from poisoned groups to
garbage, and a victim that counts the effect. A new kind is a payload or a way of sending, named in `AttackConfig`.
"""
