"""The report on a study with people."""
