"""One node as two processes: one writes and scores, one listens and trains, neither waits for the other."""
