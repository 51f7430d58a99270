"""Runs a simulation on a Ray cluster."""
