"""`swarm-node run`: one node in its home folder."""
