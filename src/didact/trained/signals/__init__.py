"""What a learned explainer is trained on: one registered signal per file."""
