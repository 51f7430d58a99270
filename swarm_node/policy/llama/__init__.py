"""Hand-written forwards for Llama's family, which take fewer passes over a CPU's memory."""
