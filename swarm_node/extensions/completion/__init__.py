"""Prints scripts with which shells complete commands and options."""
