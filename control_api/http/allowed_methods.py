"""Which methods an address takes."""

from fastapi import Request
from starlette.routing import Match

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def allowed_methods(request: Request) -> str:
    """What `Allow` says. The framework names the methods of the first route that it finds; several may share an
    address."""
    routes = request.app.routes
    path = {"type": "http", "path": request.scope["path"], "root_path": "", "headers": []}
    found = [
        method
        for method in _METHODS
        if any(route.matches({**path, "method": method})[0] is Match.FULL for route in routes)
    ]
    if "GET" in found:
        found.insert(1, "HEAD")
    return ", ".join(found)
