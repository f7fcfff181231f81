"""Errors of sign-in with the provider."""


class ProviderFailed(Exception):
    """The provider's response is missing or not valid. The message has the reason, for the log."""


class BadIdToken(Exception):
    """An ID token that does not identify a person. The message has the reason, for the log."""
