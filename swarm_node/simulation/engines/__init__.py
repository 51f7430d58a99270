"""How the nodes of a simulation run: a class for each value of --engine, behind one interface
(`engine.py`).
"""
