"""Metrics that grade explanations: one value per example."""
