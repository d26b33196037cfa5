"""Where examples come from: files, presets, the Hub, Python objects, and a corpus with planted rationales."""
