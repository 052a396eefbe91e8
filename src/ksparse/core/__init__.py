"""The paper: alternating minimisation on arrays."""
