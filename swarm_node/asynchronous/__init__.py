"""One node as two processes: one generates and scores, the other collects and trains."""
