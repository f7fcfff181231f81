"""Checks of what `pharos up` uses: its data folder, the disk, the ports, and whether it runs already."""

import contextlib
import fcntl
import http.client
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from ingest_edge.listening import PortInUse, bind, metrics_address
from operator_cli.credentials import read_credentials
from operator_cli.doctor.finding import Finding
from operator_cli.errors import CommandFailed
from pipeline_contracts.settings import Settings
from wiring.embedded.data_folder import FILES_OF_FIRST_START
from wiring.embedded.listeners import APPS_PORT_OFFSET

_HEALTH_SECONDS = 5
_COMFORTABLE_FREE_BYTES = 2 * 2**30


def check_installation(data: Path, host: str, port: int, settings: Settings) -> Iterator[Finding]:
    """Yield the findings about a data folder and about the ports that `pharos up` listens on."""
    try:
        folder = _check_folder(data)
        disk = _check_disk(data, settings.min_free_bytes)
    except OSError as error:
        # `Path.exists` raises for a folder that this user may not enter.
        yield Finding("Data folder", "error", f"{data} cannot be used: {error.strerror}", _OTHER_USER)
        return
    yield folder
    yield disk
    if folder.status != "error" and _is_locked(data):
        yield _check_running(data)
        return
    api = _check_port(
        "API and dashboard",
        host,
        port,
        f"Stop the program that uses it, or choose another: `pharos up --port {port + 1000}`.",
    )
    if api.status == "error" and _is_pharos(host, port):
        # Its other ports are in use by the same installation.
        yield Finding(f"Port {port}", "ok", f"API and dashboard: Pharos runs there, http://{host}:{port}")
        return
    yield api
    yield _check_port(
        "Applications",
        host,
        port + APPS_PORT_OFFSET,
        "Stop the program that uses it, or choose another --apps-port of `pharos up`.",
    )
    metrics_host, _, metrics_port = metrics_address(settings.metrics_listen, port).rpartition(":")
    advice = "Set PHAROS_METRICS_LISTEN to another host:port."
    metrics = _check_port("Metrics", metrics_host.strip("[]"), int(metrics_port), advice)
    # `pharos up` starts without its metrics.
    yield replace(metrics, status="warning") if metrics.status == "error" else metrics


_OTHER_USER = "Run as the user who owns it, or choose another --data."


def _check_folder(data: Path) -> Finding:
    name = "Data folder"
    if not data.exists():
        parent = next(each for each in data.absolute().parents if each.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return Finding(name, "error", f"{data} cannot be created in {parent}", "Choose another --data.")
        return Finding(name, "ok", f"{data}: does not exist yet; the first `pharos up` creates it")
    if not data.is_dir():
        return Finding(name, "error", f"{data} is not a folder", "Choose another --data.")
    for entry in FILES_OF_FIRST_START:
        with contextlib.suppress(OSError):
            if (owner := os.lstat(data / entry).st_uid) != os.geteuid():
                advice = f"Run as the user with the number {owner}, or choose another --data."
                return Finding(name, "error", f"{data / entry} belongs to another user", advice)
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, "error", f"{data} cannot be read and written", "Run as its owner.")
    if data.stat().st_mode & 0o077:
        return Finding(name, "warning", f"{data}: other users can open it", f"chmod 700 {data}")
    return Finding(name, "ok", f"{data}: only you can open it")


def _check_disk(data: Path, min_free_bytes: int) -> Finding:
    at = next(each for each in (data.absolute(), *data.absolute().parents) if each.exists())
    disk = shutil.disk_usage(at)
    detail = f"{disk.free / 2**30:.1f} of {disk.total / 2**30:.1f} GiB free"
    if disk.free < min_free_bytes:
        needed = f"Free some space: Pharos stores nothing with less than {min_free_bytes >> 20} MiB free."
        return Finding("Disk", "error", f"{disk.free >> 20} MiB free", needed)
    if disk.free < _COMFORTABLE_FREE_BYTES:
        return Finding("Disk", "warning", detail, "Free some space, or shorten the retention of data.")
    return Finding("Disk", "ok", detail)


def _is_locked(data: Path) -> bool:
    """Return True if a `pharos up` runs on the folder."""
    try:
        lock = os.open(data / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _check_running(data: Path) -> Finding:
    name = "Running"
    try:
        url = urlsplit(str(read_credentials(data)["base_url"]))
        host, port = url.hostname or "", url.port or 80
    except (CommandFailed, KeyError, ValueError):
        return Finding(name, "warning", f"`pharos up` runs on {data}, and is still starting")
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=_HEALTH_SECONDS)) as connection:
        try:
            connection.request("GET", "/health/ready")
            response = connection.getresponse()
            body = response.read(1000).decode(errors="replace").strip()
        except (OSError, http.client.HTTPException) as error:
            detail = f"`pharos up` runs on {data}, but {host}:{port} does not respond: {error}"
            return Finding(name, "error", detail, "Look at its log.")
    if response.status == 200:
        return Finding(name, "ok", f"`pharos up` serves http://{host}:{port}")
    return Finding(name, "error", f"http://{host}:{port} is not ready: {body}", "Look at its log.")


def _is_pharos(host: str, port: int) -> bool:
    """Return True if Pharos answers at the port, ready or not."""
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=_HEALTH_SECONDS)) as connection:
        try:
            connection.request("GET", "/health/live")
            response = connection.getresponse()
            return response.status == 200 and json.loads(response.read(1000)) == {"status": "live"}
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            return False


def _check_port(name: str, host: str, port: int, advice: str) -> Finding:
    try:
        bind(host, port).close()
    except PortInUse as error:
        # The message names the option that is wrong: the host or the port.
        advice = str(error) if "--host" in str(error) else advice
        return Finding(f"Port {port}", "error", f"{name}: {error.reason or error}", advice)
    return Finding(f"Port {port}", "ok", f"{name}: free")
