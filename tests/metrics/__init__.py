"""Every metric on examples worked out by hand."""
