"""What users bring: models, hardware, links, efficiencies, workloads and traces, validated once."""
