"""Whether the units an explanation puts first are those that the model's prediction depends on."""
