"""Backward passes with other rules than the derivative.

``with Substituted(rules):`` round a differentiable pass leaves its values as they are and replaces what
backpropagation does at nonlinearities, products, softmax and normalisation. The user's model is not touched: the
functions it calls are watched, not its modules.
"""

from didact.ops.backward.interaction import Interaction
from didact.ops.backward.mode import Substituted
from didact.ops.backward.relevance import Relevance
from didact.ops.backward.rescale import Rescale
from didact.ops.backward.rules import Rules

__all__ = ["Interaction", "Relevance", "Rescale", "Rules", "Substituted"]
