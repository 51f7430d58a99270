"""Scored groups in, better weights out."""
