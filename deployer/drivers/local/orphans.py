"""Decides which processes of a former deployer process the new one takes over.

Where the kernel grants no namespaces, a program can write any mark into its environment. A program cannot choose its
user: each environment has a user of its own where Pharos is root.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from control_domain.workflows.read_workflow import MOST_PROCESSES, MOST_REPLICAS
from deployer.drivers.local.instance import Mark
from deployer.processes.marks import MarkedProcess

logger = logging.getLogger(__name__)

# Per environment: the live release, and the former release during a deploy. Each orphan takes a descriptor.
_MOST_CLAIMED = 2 * MOST_PROCESSES * MOST_REPLICAS

FindUser = Callable[[int], int | None]


def choose_orphans(
    marked: Mapping[str, Sequence[MarkedProcess]], find_runner: FindUser, find_listener: FindUser
) -> dict[Mark, MarkedProcess]:
    """Return the commands of instances by their marks. The caller ends all other processes of `marked`.

    `marked`: processes by their marks, the oldest first. `find_runner`: the user of an environment's number.
    `find_listener`: the user whose socket listens on a port.
    """
    leaders = {}
    for text, processes in marked.items():
        mark = Mark.read(text)
        leader = None if mark is None else _find_leader(processes, find_runner(mark.environment_id))
        if mark is not None and leader is not None:
            leaders[mark] = leader
    _drop_crowds(leaders)
    _drop_disputed(leaders, find_listener)
    return leaders


def _find_leader(processes: Sequence[MarkedProcess], uid: int | None) -> MarkedProcess | None:
    leaders = [each for each in processes if each.is_leader and each.uid == uid]
    # Without a PID namespace a daemon leads a session too, and is younger than the command.
    return next((each for each in leaders if each.is_sealed), leaders[0] if leaders else None)


def _drop_crowds(leaders: dict[Mark, MarkedProcess]) -> None:
    claimed = Counter(mark.environment_id for mark, leader in leaders.items() if not leader.is_sealed)
    crowds = {number for number, count in claimed.items() if count > _MOST_CLAIMED}
    for mark, leader in list(leaders.items()):
        if mark.environment_id in crowds and not leader.is_sealed:
            del leaders[mark]
    for number in crowds:
        logger.warning(
            "environment %d: %d processes claim to be instances, more than it can have (%d): they are ended",
            number,
            claimed[number],
            _MOST_CLAIMED,
        )


def _drop_disputed(leaders: dict[Mark, MarkedProcess], find_listener: FindUser) -> None:
    """Keep the instances of only one environment for each port that several environments claim.

    The environment with a mark that no program can write has the port, otherwise the one whose user listens on the
    port. Keep no instance where neither rule decides.
    """
    by_port: dict[int, list[Mark]] = {}
    for mark in leaders:
        if mark.port:
            by_port.setdefault(mark.port, []).append(mark)
    for port, claims in by_port.items():
        if len(_environments(claims)) == 1:
            continue
        kept = [mark for mark in claims if leaders[mark].is_sealed] or claims
        if len(_environments(kept)) > 1:
            listening = find_listener(port)
            kept = [mark for mark in kept if leaders[mark].uid == listening]
        if len(_environments(kept)) > 1:
            kept = []
        for mark in set(claims).difference(kept):
            del leaders[mark]
        logger.warning(
            "environments %s claim port %d, which only one of them was given: the instances of %s are ended",
            ", ".join(map(str, sorted(_environments(claims)))),
            port,
            ", ".join(map(str, sorted(_environments(claims) - _environments(kept)))),
        )


def _environments(marks: Sequence[Mark]) -> set[int]:
    return {mark.environment_id for mark in marks}
