"""Model, generation, trainer, checkpoints."""
