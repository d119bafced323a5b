"""What a GPU holds: weights, KV cache, and what engines keep for themselves."""
