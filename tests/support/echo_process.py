"""Prints its arguments and environment, and ends as its first argument says; for `test_fork_server`."""

import json
import os
import sys
import time

if __name__ == "__main__":
    _, ending, *arguments = sys.argv
    started_with = {
        "arguments": arguments,
        # macOS and C locales add further variables.
        "environment": {name: value for name, value in os.environ.items() if name != "LC_CTYPE"},
        "folder": os.getcwd(),
        "input": sys.stdin.read() if ending != "wait" else "",
    }
    if ending == "wait":
        started_with["pid"] = os.getpid()
    print(json.dumps(started_with), flush=True)
    print("to standard error", file=sys.stderr)
    match ending:
        case "wait":
            time.sleep(600)
        case "raise":
            raise ValueError("ended by an exception")
        case "text":
            sys.exit("ended by a text")
        case status:
            sys.exit(int(status))
