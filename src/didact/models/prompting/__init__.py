"""Prompts: how a language model is made a classifier, from plain data to tokens."""
