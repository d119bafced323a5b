"""Measurements of whole steps and of whole requests, what is predicted of them, and the stacks fitted to them."""
