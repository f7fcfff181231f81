"""`pharos run` with other times than its own."""

_TIMES = {"_CALL_SECONDS": 60.0, "_PATIENCE_SECONDS": 60.0, "_LOOKUP_SECONDS": 60.0}


def patient_run(**seconds: float) -> str:
    """The program `pharos` as Python code; `pharos run` has these of its times.

    The others are longer than a machine stands still: a call that is given up is made once more, and the server hears
    of it twice.
    """
    times = "".join(f"run.{name} = {value}\n" for name, value in {**_TIMES, **seconds}.items())
    return f"from operator_cli import main, run\n{times}main.main()\n"
