"""Generates with a vLLM server."""
