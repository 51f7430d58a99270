"""What is wired to what. Who besides may know concrete classes is in the import contracts in pyproject.toml."""
