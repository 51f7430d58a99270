"""Invitations: a short text with which another machine joins this node's swarm."""
