"""Sends the metrics of a run to Trackio or Weights & Biases."""
