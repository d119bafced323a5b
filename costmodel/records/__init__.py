"""Records of published figures: the packaged ones, and the reader of record files."""

from .record import Figure, Record, Stated

__all__ = ["Figure", "Record", "Stated"]
