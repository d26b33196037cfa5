"""Networks that learn to imitate a model, many at a time, with or without hints from explanations."""
