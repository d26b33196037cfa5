"""Adapters round the user's model: loading, the batch planner, attention capture, black boxes."""
