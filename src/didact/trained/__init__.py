"""Learned explainers: what computes the scores (shapes) x what it learns from (signals), and one training loop."""
