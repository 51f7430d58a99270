"""What is wired to what: the only room that knows the others' concrete classes."""
