"""Vectors of the wire protocol: messages and bytes, and what every implementation must make of
them.

    python -m lab.vectors                # writes protocol/vectors/*.json, the same bytes each time
    python -m tests.protocol.deletions   # deletes each check of protocol/*.py: does a vector fail?

keys, texts, messages, cards, dials, frames and seeds make the vectors from protocol/README.md
alone: they import nothing of `protocol`, so they do not repeat its mistakes. lab/vectors/reading.py
reads a vector with `protocol`, and dials with the gate of a node.
"""
