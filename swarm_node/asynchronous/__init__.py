"""One node as two processes: one writes and judges, one listens and trains, neither waits for the other."""
