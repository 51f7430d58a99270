"""Turns scored groups into better weights: advantages, objectives, the trainer, checkpoints."""
