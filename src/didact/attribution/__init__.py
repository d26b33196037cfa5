"""Static explanation methods: one file, one registered class, one card each."""
