"""Forwards of our own for Llama's family: what a CPU computes in fewer passes over memory."""
