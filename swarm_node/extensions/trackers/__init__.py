"""Sends a node's metrics to CSV, Trackio or Weights & Biases."""
