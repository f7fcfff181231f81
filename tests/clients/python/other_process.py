"""The function of a multiprocessing process, in a module that a new interpreter imports quickly."""

import pharos_client


def record(url: str, key: str, title: str) -> None:
    """Record an event with a client of the process, and return without a flush."""
    pharos_client.init(url, key, service="processes").log(title)
