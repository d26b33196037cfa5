"""One engine for all experiments: kinds of recipes by name, keyed steps that are never done twice, and executors."""
