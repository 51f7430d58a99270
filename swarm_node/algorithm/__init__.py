"""Advantages, losses and row layouts: tensor maths without I/O."""
