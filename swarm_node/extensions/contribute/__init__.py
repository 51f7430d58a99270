"""`swarm-node contribute`: a node that only generates, through somebody's API or by a person. Needs no torch."""
