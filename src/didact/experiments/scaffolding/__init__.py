"""Explainers that are trained for teaching (SMaT), graded by fresh students and by what people marked."""
