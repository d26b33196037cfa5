"""Slow truth: every method against its definition, written out plainly, or against an independent implementation."""
