"""Kinds of recipes, one file each; a third party adds one through the entry-point group ``didact.recipes``."""
