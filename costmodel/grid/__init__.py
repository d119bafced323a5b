"""The closed form over thousands of deployments and workloads at once, on the formulas of :mod:`costmodel.evaluate`."""
