"""Learning explanations by how well they teach: populations of students, and gradients through their training."""
