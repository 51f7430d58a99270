"""What one node does: round.py is a round, loop.py runs rounds until the node is stopped, and the
other modules wire and guard these two.
"""
