"""Ways to run the service beyond one machine."""
