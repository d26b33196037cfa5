"""Experiments: a recipe, the runner that carries it out and survives being killed, and the report on its results."""
