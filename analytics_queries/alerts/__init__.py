"""Questions of the alert scan: each is about all environments or sites at once, and reads a short time."""
