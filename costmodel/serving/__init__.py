"""How a model is served: the work and time of steps, memory, hand-overs, strategies, deployments."""
