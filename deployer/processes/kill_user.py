"""Kills all processes of a user at once. Run as a script by root: `python -I -S kill_user.py UID GID`.

The kernel executes `kill(-1)` in one pass under the lock that fork takes too, so not even a fork bomb escapes. The call
reaches the processes that its caller may signal, so the script becomes that user first.
"""

import os
import signal
import sys


def main() -> None:
    uid, gid = int(sys.argv[1]), int(sys.argv[2])
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # As root, the kill would end all processes of the machine.
    if uid <= 0 or os.getresuid() != (uid,) * 3:
        raise SystemExit("root privileges could not be dropped")
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main()
