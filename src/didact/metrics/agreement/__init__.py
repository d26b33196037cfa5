"""Whether explainers say the same."""
