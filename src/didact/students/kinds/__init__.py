"""Kinds of student: one file each, registered under the file's name."""
