"""Whether explanations stay the same where they should: similar texts, other seeds, edits that keep the meaning."""
