"""Published systems as one call each, from a model and texts to a learned explainer: one registered preset per file."""
