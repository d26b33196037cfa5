"""Files of the default model; read by models."""
