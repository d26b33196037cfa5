"""Plain functions as models: what they are called with, what identifies them, how absent units are shown to them."""
