"""Published model configurations, one JSON file each: the fields that bear on size, KV cache and work."""
