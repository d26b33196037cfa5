"""Explainers trained for a metric: judges, the search for the weights of their loss, and the study of AML."""
