"""Trainers of others in a swarm. Each needs its own package, which this one does not bring."""
