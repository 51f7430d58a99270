"""Makes objects of a configuration. The import contracts in pyproject.toml list who else may know concrete classes."""
