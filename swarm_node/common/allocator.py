"""How a user sets torch's allocator of a card's memory: by variables. Loads no torch."""

# All are its own name for the same
ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}
