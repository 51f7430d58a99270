"""An environment and a sampler for swarm-node."""
