"""The exchange: who to talk to, what to tell, what to fetch. Decisions only, no input or output."""
