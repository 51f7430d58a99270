"""Hostile nodes in the simulation, by kind, and what they achieve on the others.

payloads.py: poisoned text. messages.py: what a hostile node sends in a round, from poisoned groups to plain garbage.
hostile.py: which nodes are hostile, the hostile node itself, and a victim that counts what became of it. A new kind is
a payload or a way of sending, named in `settings.AttackConfig`.
"""
