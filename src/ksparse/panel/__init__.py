"""Panels: few features that tell known groups apart, and what can be made of them."""
