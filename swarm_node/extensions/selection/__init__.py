"""Samplers other than the uniform one, and what external completions teach."""
