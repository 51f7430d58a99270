"""A node inside other programs: beside TRL's GRPOTrainer, and in a script or a notebook."""
