"""`pharos run` with other times than its own.

python -m tests.operator_cli.patient_run TIMES ARGUMENTS   runs `pharos ARGUMENTS`; TIMES is a JSON object
"""

import json
import sys

_TIMES = {"_CALL_SECONDS": 60.0, "_PATIENCE_SECONDS": 60.0, "_LOOKUP_SECONDS": 60.0}


def patient_run(**seconds: float) -> str:
    """The program `pharos` as Python code; `pharos run` has these of its times.

    The others are longer than a machine stands still: a call that is given up is made once more, and the server hears
    of it twice.
    """
    times = "".join(f"run.{name} = {value}\n" for name, value in {**_TIMES, **seconds}.items())
    return f"from operator_cli import main, run\n{times}main.main()\n"


def patient_command(**seconds: float) -> list[str]:
    """The same program as a command that the fork server can start."""
    return [sys.executable, "-m", "tests.operator_cli.patient_run", json.dumps(seconds)]


if __name__ == "__main__":
    from operator_cli import main, run

    for _name, _value in {**_TIMES, **json.loads(sys.argv.pop(1))}.items():
        setattr(run, _name, _value)
    main.main()
