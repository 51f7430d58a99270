"""Lets TRL's GRPOTrainer take part in a swarm."""
