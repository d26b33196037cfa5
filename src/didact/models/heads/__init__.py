"""Heads: what a network predicts, and which number is explained; one file each."""
