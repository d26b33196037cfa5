"""Published tables: the numbers as printed, and what was measured here beside them."""
