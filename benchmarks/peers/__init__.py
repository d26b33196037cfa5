"""didact against captum, lime, shap and interpreto: the same model, the same texts, the same number of evaluations."""
