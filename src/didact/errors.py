"""One small tree of errors. Each message says what was given, what is allowed and what to do."""

from __future__ import annotations


class DidactError(Exception):
    """Base of all errors that a user can act on; the command line prints it in one line and exits with 2."""


class InputError(DidactError):
    """The text, the file or the kind of example cannot be explained."""


class StorageError(InputError):
    """What was to be stored could not be written, and nothing of it was; it can be sent again."""


class TargetError(DidactError):
    """The requested label or scale does not exist in this model."""


class ModelError(DidactError):
    """The model cannot be loaded, or its output has a form that cannot be used."""


class CapabilityError(DidactError):
    """The method needs something of the model that it does not offer."""


class MismatchError(ModelError):
    """The explained pass does not reproduce the model's plain prediction."""


class ParameterError(DidactError):
    """A setting is unknown or out of range."""


class UnknownNameError(DidactError):
    """No such registered name; the message lists the close ones."""


class FormatError(DidactError):
    """Data that was stored, or comes from elsewhere, does not have the expected form."""


class AccessError(DidactError):
    """The invitation code or the session is not known."""
