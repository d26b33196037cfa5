"""Whether explainers agree with each other."""
