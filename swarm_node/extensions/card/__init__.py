"""The card of a swarm, by hand: who founds a swarm makes it, signs it and renews it with others."""
