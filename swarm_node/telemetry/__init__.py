"""What a run tells the outside: typed events, and the sinks that show or keep them. Nothing here changes learning."""
