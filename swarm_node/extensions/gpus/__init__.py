"""Spreads the training of one node over several GPUs of one machine."""
