"""Explanations as something to look at: terminal, HTML, LaTeX, JSON and notebooks, and a progress bar.

Import the module you need (``didact.render.html``, ``didact.render.terminal``, ...): this package itself loads nothing,
so ``import didact`` stays light.
"""
