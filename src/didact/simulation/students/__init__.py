"""Students: one file per kind, each registered under its file's name."""
