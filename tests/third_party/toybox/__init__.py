"""A third party's package: one registered thing of every family, each in one file."""
