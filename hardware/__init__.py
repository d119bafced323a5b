"""GPUs, links, connectors and measured efficiencies: one TOML file each, every value with its source."""
