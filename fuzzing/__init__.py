"""Hostile inputs: corpora, mutations, and the commands that send them."""
