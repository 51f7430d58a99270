"""Small things that any room may use."""
