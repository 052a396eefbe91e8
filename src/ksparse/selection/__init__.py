"""How many features, how many clusters, how stable."""
