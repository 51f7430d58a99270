"""Samplers other than the uniform one."""
