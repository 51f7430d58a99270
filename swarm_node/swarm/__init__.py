"""Who belongs to a swarm: its signed card, invitations to it, and how a node joins by either."""
