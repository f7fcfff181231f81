"""How a file of `served_files` is answered: compressed for those who take that, and once to those who keep it."""

from fastapi import Request, Response

from control_api.reference.served_files import ServedFile

FRESH = "no-cache"
"""Kept, and asked for anew each time: an answer without a body if it is the same still."""

# Styles and scripts are files of this origin. `data:`: the small images inside of Swagger UI's style sheet.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def answer_file(request: Request, file: ServedFile, headers: dict[str, str]) -> Response:
    """The file, or 304 to whoever has it. `headers` are those that not every file has; a policy among them replaces
    that of the page of the reference."""
    coded = _takes_gzip(request.headers.get("accept-encoding", ""))
    # Each coding has a tag of its own (RFC 9110, 8.8.3.3).
    etag = f'"{file.digest}{"-gzip" if coded else ""}"'
    headers = {
        "ETag": etag,
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        **headers,
    }
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or etag in [one.strip().removeprefix("W/") for one in known.split(",")]:
        return Response(status_code=304, headers=headers)
    if coded:
        headers["Content-Encoding"] = "gzip"
    return Response(file.gzipped if coded else file.plain(), headers=headers, media_type=file.content_type)


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
