"""Tests of the pure functions that methods and models are composed of."""
