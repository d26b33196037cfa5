"""Grading explanations by metrics: recipes, what carries them out in keyed steps, and the finished evaluation."""
