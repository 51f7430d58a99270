"""Hostile nodes in the simulation, by kind, and their effect on honest ones.

payloads.py makes poisoned completions. messages.py makes what a hostile node sends in a round, from poisoned groups to
garbage. hostile.py has the choice of hostile nodes, the hostile node, and a victim that counts the effect. A new kind
is a payload or a way of sending, named in `settings.AttackConfig`.
"""
