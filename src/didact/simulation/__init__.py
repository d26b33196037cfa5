"""The simulability protocol: an explanation is worth the accuracy that it adds to a student."""
