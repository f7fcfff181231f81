"""The HTTP API of the control plane: routes, request bodies, authentication, limits, and the API reference."""
