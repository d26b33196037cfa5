"""Explanations of many texts: computed in shards that survive a kill, or read from files."""
