"""Pure functions on arrays and tensors that methods and models are composed of."""
