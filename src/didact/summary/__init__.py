"""Explanations of many texts put together."""
