"""Why a sign-in with the provider has failed."""


class ProviderFailed(Exception):
    """The provider has not answered as it should. The message says how, for the log."""


class BadIdToken(Exception):
    """An ID token that does not prove who signs in. The message says why, for the log."""
