"""The data sets of reasoning-gym."""
