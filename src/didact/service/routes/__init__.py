"""The endpoints, one file per subject; each defines ``router``."""
