"""Samplers other than the uniform one, and a layer of the defence: which groups a node trains on."""
