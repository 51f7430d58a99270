"""Exercises for readers who have never seen the project: what they are asked, how it is drawn."""
