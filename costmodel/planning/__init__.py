"""The smallest and the cheapest deployment that meets the SLOs: what to try, how to size it, what a replay says."""
