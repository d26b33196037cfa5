"""Grading by teaching as an experiment: recipes, a runner that resumes where it was, tables and charts."""
