"""Distilling slow explainers into networks, as an experiment: recipes, steps, grades and summaries."""
