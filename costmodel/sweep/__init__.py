"""Sweeps: any inputs of a question as a grid, answered block by block, written as they come."""
