"""The main question: strategies side by side, bands, break-evens, and the verdict."""
