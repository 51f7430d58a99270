"""`swarm-node contribute`: a node that only generates, with a model behind an API. Needs no
torch.
"""
