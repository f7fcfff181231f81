"""The `pharos` script. It imports little at first, so that Ctrl-C during later imports ends it without a traceback."""

# `signal` itself imports `enum`, and an interrupt during that import prints a traceback.
import _signal  # type: ignore[import-not-found]
import os


def main() -> None:
    """Run the command that `sys.argv` names, and exit with a status of `run_command`."""
    # The signal stays ignored if the parent ignores it, as a shell does for background jobs.
    handles_interrupts = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if handles_interrupts:
        # Imports take 0.1 to 1 s. A KeyboardInterrupt during an import prints a traceback, or is lost in that code.
        _signal.signal(_signal.SIGINT, _exit_at_once)
    from operator_cli.run_command import run_command

    def restore() -> None:
        if handles_interrupts:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)

    run_command(on_parsed=restore)


def _exit_at_once(_number: int, _frame: object) -> None:
    os.write(2, b"pharos: Interrupted before the command began.\n")
    # Exit without an exception: no resource is open yet, and the imported module could catch an exception.
    os._exit(130)


if __name__ == "__main__":
    main()
