"""Grading by teaching as an experiment: recipes, a runner that goes on where it was, tables and charts."""
