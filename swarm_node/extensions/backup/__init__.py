"""A home in one file, and a home from it."""
