"""Where examples come from: files, and the generated corpus with planted rationales."""
