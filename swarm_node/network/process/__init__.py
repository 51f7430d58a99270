"""The network process, its supervisor and the trainer's side of it."""
