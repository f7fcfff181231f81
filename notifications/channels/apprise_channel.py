"""Sends messages through Apprise, for services without a channel type of their own. Connections of Apprise bypass the
checks of `outbound_http`.

Apprise blocks, follows redirects and connects to any address. So a separate process sends each message. It has a time
limit and none of Pharos' environment variables, and it follows no redirects.
"""

import asyncio
import os
import sys

import msgspec

from control_domain.notifications.channel_types import AppriseSecrets, read_settings
from notifications.channels.apprise_process import Exit
from notifications.channels.interface import DeliveryFailed, Destination
from notifications.message import Message
from notifications.render.text import render_text
from notifications.render.view import Tone, view_message

_TOTAL_SECONDS = 15.0
_AT_ONCE = 2
"""Maximum number of processes at the same time. Each process needs half a second of CPU time to import Apprise."""
_TYPES: dict[Tone, str] = {
    "critical": "failure",
    "warning": "warning",
    "info": "info",
    "resolved": "success",
}
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_ERRORS: dict[int, tuple[str, bool]] = {
    Exit.NOT_SENT: ("Apprise could not deliver the message.", False),
    Exit.UNUSABLE_URL: ("Apprise does not understand the URL of the channel.", True),
    Exit.LOCAL_SERVICE: ("Services on Pharos' own machine are not allowed.", True),
}
"""For each exit code, the error text, and whether the failure is permanent."""


class AppriseChannel:
    """Runs `apprise_process` once for each message."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(_AT_ONCE)

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. Apprise reports only success or failure, so every failure is retried."""
        view = view_message(message)
        request = msgspec.json.encode(
            {
                "url": read_settings(AppriseSecrets, destination.secrets).url,
                "title": f"{view.word}: {view.subject}",
                "body": render_text(message),
                "type": _TYPES[view.tone],
            }
        )
        try:
            async with asyncio.timeout(_TOTAL_SECONDS), self._running:
                code = await _run(request)
        except TimeoutError:
            raise DeliveryFailed(f"Apprise did not end within {_TOTAL_SECONDS:g} s.") from None
        if code != Exit.SENT:
            text, is_permanent = _ERRORS.get(code, ("Apprise failed.", False))
            raise DeliveryFailed(text, is_permanent=is_permanent)


async def _run(request: bytes) -> int:
    """Run the program with the request as its input, and return its exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # -I: Python searches neither the working directory nor PYTHONPATH for modules.
        "-I",
        "-m",
        "notifications.channels.apprise_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        cwd="/",
    )
    try:
        await process.communicate(request)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode
