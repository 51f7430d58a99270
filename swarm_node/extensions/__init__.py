"""What a node can do without. Each folder registers itself in pyproject.toml, and can be deleted:
the core names none of them.
"""
