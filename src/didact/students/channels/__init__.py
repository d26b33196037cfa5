"""Channels: how an explanation reaches a student while it learns; one file per channel."""
