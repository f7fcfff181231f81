"""Sign-in with an OpenID Connect provider: authorization code with PKCE, state and nonce (OpenID Connect Core 1.0)."""
