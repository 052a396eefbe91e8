"""Search: several starts, compared on held-out samples."""
