"""What computes the scores of a learned explainer: one registered shape per file."""
