"""Attack a proxy with uploads to an application that reads nothing, during requests to a neighbour.

    python -m tests.hostile.unread_uploads [NUMBER]

The proxy is a separate process with the product's default limits. The program prints the responses to the neighbour's
and the attacker's callers.
"""

import asyncio
import contextlib
import resource
import socket
import sys
from collections import Counter

import aiohttp

from tests.deployer.traffic.applications import raw_server, running_application
from tests.hostile.proxy_process import running_proxy
from tests.support.engines import free_port

_HEAD = b"POST / HTTP/1.1\r\nHost: deaf.localhost\r\nContent-Length: 1000000000\r\n\r\n"


def _answer(caller: socket.socket) -> str:
    try:
        return caller.recv(65536)[9:12].decode() or "closed"
    except BlockingIOError:
        return "waits"
    except OSError as error:
        return type(error).__name__


async def attack(count: int, asks: int) -> tuple[Counter[str], Counter[str]]:
    """Return the statuses of the neighbour's callers, and of the attacker's."""
    port, neighbours, attackers = free_port(), Counter[str](), Counter[str]()
    over = asyncio.Event()

    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()

    async with raw_server(read_nothing, port), running_application("neighbour") as neighbour:
        with running_proxy({"deaf": port, "neighbour": neighbour.target.port}) as proxy:
            callers = []
            for number in range(count):
                caller = socket.create_connection(("127.0.0.1", proxy.port))
                caller.setblocking(False)
                with contextlib.suppress(OSError):
                    caller.send(_HEAD + bytes(4096))
                callers.append(caller)
                if number % 50 == 0:
                    await asyncio.sleep(0.01)
            url = f"http://127.0.0.1:{proxy.port}/"
            async with aiohttp.ClientSession() as session:
                for _ in range(asks):
                    async with session.get(url, headers={"Host": "neighbour.localhost"}) as answer:
                        neighbours[str(answer.status)] += 1
                    await asyncio.sleep(0.01)
            for caller in callers:
                attackers[_answer(caller)] += 1
                caller.close()
        over.set()
        await asyncio.sleep(0.1)
    return neighbours, attackers


def main(count: int = 5000) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    neighbours, attackers = asyncio.run(attack(count, 100))
    print(f"{count} uploads that nobody reads: {dict(attackers)}; the neighbour: {dict(neighbours)}")


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:]))
