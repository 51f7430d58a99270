"""What one node does: round.py is a round, loop.py runs rounds until it is stopped, and the rest wires and guards
them."""
