"""Verifies ID tokens (OpenID Connect Core 1.0, 3.1.3.7)."""

import hmac
from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from control_api.oidc.failures import BadIdToken
from control_domain.sign_in.oidc import OidcPerson

# Only algorithms with public keys: the provider's key must not be accepted as a shared secret.
_ALGORITHMS = ["RS256", "PS256", "ES256", "RS384", "PS384", "ES384", "RS512", "PS512", "ES512", "EdDSA"]
_LEEWAY_SECONDS = 60


def verify_id_token(
    text: str, keys: KeySet, *, issuer: str, client_id: str, nonce: str, seconds: float
) -> OidcPerson:
    """Return the person of an ID token that the issuer has signed for this client and sign-in. Raises `BadIdToken`.

    `seconds`: the present time since 1970.
    """
    try:
        claims: Mapping[str, Any] = jwt.decode(text, keys, algorithms=_ALGORITHMS).claims
    except (JoseError, ValueError) as error:
        raise BadIdToken(f"the signature is not valid ({type(error).__name__})") from None
    _check(claims, issuer, client_id, nonce, seconds)
    subject, email = claims.get("sub"), claims.get("email")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise BadIdToken("sub is missing or too long")
    name = claims.get("name")
    return OidcPerson(
        issuer,
        subject,
        email.strip().lower() if isinstance(email, str) else "",
        claims.get("email_verified") is True,
        name if isinstance(name, str) else "",
    )


def _check(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str, seconds: float) -> None:
    if claims.get("iss") != issuer:
        raise BadIdToken("iss is another issuer")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences:
        raise BadIdToken("aud is another client")
    if claims.get("azp", client_id) != client_id or (len(audiences) > 1 and "azp" not in claims):
        raise BadIdToken("azp is another client")
    if _read_time(claims, "exp") <= seconds - _LEEWAY_SECONDS:
        raise BadIdToken("it has expired")
    if _read_time(claims, "iat") > seconds + _LEEWAY_SECONDS:
        raise BadIdToken("iat is in the future")
    found = claims.get("nonce")
    if not isinstance(found, str) or not hmac.compare_digest(found.encode(), nonce.encode()):
        raise BadIdToken("nonce belongs to another sign-in")


def _read_time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadIdToken(f"{name} is not a time")
    return value
