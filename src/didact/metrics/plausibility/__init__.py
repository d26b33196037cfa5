"""Agreement of explanations with rationales that are known: human, or planted."""
