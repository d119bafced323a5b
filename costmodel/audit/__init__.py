"""What a published or measured figure is worth: what it leaves open, and whether physics allows it."""
