"""Published experiments: what was measured there, and what is measured here beside it."""
