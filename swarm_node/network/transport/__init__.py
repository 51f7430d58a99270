"""The libraries that carry calls between peers, and how peers are reached."""
