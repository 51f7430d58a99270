"""Connects nodes through py-libp2p, in pure Python, in place of hivemind's daemon."""
