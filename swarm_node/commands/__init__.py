"""What the commands do, a module each."""
