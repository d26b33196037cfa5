"""The record of one decision: what was predicted and why, what would flip it, how far to trust the explanation."""
