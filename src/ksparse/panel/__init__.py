"""Gene panels: a few features that tell given groups apart, and how well they do."""
