"""Lets TRL's GRPOTrainer take part in a swarm, and nodes train on environments written for it."""
