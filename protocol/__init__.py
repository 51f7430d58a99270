"""What peers agree on. Pure data and pure functions: no torch, no sockets, no asyncio, no clock."""
