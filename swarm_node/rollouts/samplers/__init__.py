"""Which groups to train on. A sampler is a small file here, registered in pyproject.toml; docs/how-to/sampler.md lists
them. The default is that of the paper, uniform."""

from swarm_node.rollouts.samplers.uniform import MatchedSampler, Sampler, UniformSampler, choose_local

__all__ = ["MatchedSampler", "Sampler", "UniformSampler", "choose_local"]
