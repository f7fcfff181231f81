"""`pharos run` with other time limits than the default ones.

python -m tests.operator_cli.run_with_time_limits LIMITS ARGUMENTS   runs `pharos ARGUMENTS`; LIMITS is a JSON object
"""

import json
import sys

_LIMITS = {"_REQUEST_SECONDS": 60.0, "_GIVE_UP_SECONDS": 60.0, "_LOOKUP_SECONDS": 60.0}


def program_with_time_limits(**limits: float) -> str:
    """Return the program `pharos` as Python code, in which `pharos run` has these time limits.

    Other limits are longer than any stall of the machine: a request that times out is sent again, and the server
    receives it twice.
    """
    lines = "".join(f"run.{name} = {value}\n" for name, value in {**_LIMITS, **limits}.items())
    return f"from operator_cli import main\nfrom operator_cli.monitors import run\n{lines}main.main()\n"


def command_with_time_limits(**limits: float) -> list[str]:
    """Return the same program as a command that the fork server can start."""
    return [sys.executable, "-m", "tests.operator_cli.run_with_time_limits", json.dumps(limits)]


if __name__ == "__main__":
    from operator_cli import main
    from operator_cli.monitors import run

    for _name, _value in {**_LIMITS, **json.loads(sys.argv.pop(1))}.items():
        assert hasattr(run, _name), _name
        setattr(run, _name, _value)
    main.main()
