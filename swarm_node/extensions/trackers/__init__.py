"""Sends a node's metrics to CSV, Trackio, Weights & Biases or TensorBoard."""
