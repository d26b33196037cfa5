"""The smallest change of a text that flips a prediction."""
