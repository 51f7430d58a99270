"""Samplers other than the uniform one: which groups a node trains on."""
