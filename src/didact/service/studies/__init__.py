"""The pages of a study with people: raters answer, the owner follows progress; the logic is ``didact.study``."""
