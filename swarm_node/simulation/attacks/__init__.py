"""Hostile nodes in the simulation, and their effect on honest ones. `AttackConfig` names the
kinds.
"""
