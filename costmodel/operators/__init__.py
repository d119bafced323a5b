"""Operators of a step: what each does, and how long it takes under fitted parameters."""
