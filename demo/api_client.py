"""Calls the API of the platform as a person of the demo would."""

import asyncio
import io
from typing import Any

import aiohttp
import orjson

_TIMEOUT_SECONDS = 60.0
_FOR_NOW = (429, 503)
_RETRY_SECONDS = 2.0


class ApiRefused(Exception):
    """The API responded with a problem document."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body[:500]}")
        self.status = status


class ApiClient:
    """A client with one bearer credential; without one if `token` is empty. `base_url` ends in `/api`.

    A request that gets 429 or 503 (nothing was stored) is sent up to `attempts` times.
    """

    def __init__(
        self, session: aiohttp.ClientSession, base_url: str, token: str = "", *, attempts: int = 1
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._attempts = attempts
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def with_token(self, token: str) -> "ApiClient":
        """Return a client with another credential."""
        return ApiClient(self._session, self._base_url, token, attempts=self._attempts)

    async def get(self, path: str) -> Any:
        return await self.send("GET", path)

    async def post(self, path: str, body: Any = None) -> Any:
        return await self.send("POST", path, body)

    async def patch(self, path: str, body: Any) -> Any:
        return await self.send("PATCH", path, body)

    async def put(self, path: str, body: Any) -> Any:
        return await self.send("PUT", path, body)

    async def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Return the member `data` of the response, or the whole response without one. A `body` of bytes is sent
        unchanged. Raises `ApiRefused`, `aiohttp.ClientError` and `TimeoutError`."""
        content = body if isinstance(body, bytes | None) else orjson.dumps(body)
        sent = {**self._headers, "Content-Type": "application/json", **(headers or {})}
        for attempt in range(1, self._attempts + 1):
            status, text = await self._send_once(method, path, content, sent)
            if status not in _FOR_NOW or attempt == self._attempts:
                break
            await asyncio.sleep(_RETRY_SECONDS)
        if status >= 400:
            raise ApiRefused(method, path, status, text)
        document = orjson.loads(text) if text else None
        return document["data"] if isinstance(document, dict) and "data" in document else document

    async def _send_once(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        # Sent as a file, because aiohttp warns about large bodies of type `bytes`.
        data = None if content is None else io.BytesIO(content)
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with self._session.request(
            method, self._base_url + path, data=data, headers=headers, timeout=timeout
        ) as response:
            return response.status, await response.text()
