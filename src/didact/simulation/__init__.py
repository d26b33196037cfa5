"""Explanations graded by teaching: students that see them only while they learn to imitate a model."""
