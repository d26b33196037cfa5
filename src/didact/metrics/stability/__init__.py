"""Whether explanations stay the same where they should: like texts, other seeds, edits that keep the meaning."""
