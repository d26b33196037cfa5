"""Judges of explanations: one value per example."""
