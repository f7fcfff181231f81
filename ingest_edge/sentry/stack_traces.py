"""Write the exceptions of an event as their language prints them, so that issues are grouped and read as from any other
sender."""

from collections.abc import Callable, Sequence
from typing import Any

from ingest_edge.sentry.values import as_dict, as_list, as_text

_MAX_EXCEPTIONS = 20
_MAX_FRAMES = 250
_TEXT = 1000
_CAUSES = {
    "__context__": "During handling of the above exception, another exception occurred:",
    None: "The above exception was the direct cause of the following exception:",
}

Frame = dict[str, Any]


def write_stack_trace(event: dict[str, Any], exceptions: Sequence[dict[str, Any]], platform: str) -> str:
    """Return the stack trace of an event: that of its exceptions, or else that of its message. Empty without frames and
    exceptions.

    Sentry lists the exception that was raised last as the last one, and the innermost frame as the last one.
    """
    exceptions = exceptions[-_MAX_EXCEPTIONS:]
    if not exceptions:
        frames = _message_frames(event)
        return _write_frames(frames, platform) if frames else ""
    if platform == "python":
        return _write_python(exceptions)
    parts = []
    for number, exception in enumerate(reversed(exceptions)):
        head = ("Caused by: " if number else "") + describe_exception(exception)
        parts.append("\n".join([head, _write_frames(frames_of(exception), platform)]).rstrip("\n"))
    return "\n".join(parts)


def describe_exception(exception: dict[str, Any]) -> str:
    """Return `Type: message`, or only the type or the message if the other is missing."""
    kind, message = as_text(exception.get("type")), as_text(exception.get("value"), 2 * _TEXT)
    return f"{kind}: {message}" if kind and message else kind or message


def frames_of(holder: dict[str, Any]) -> list[Frame]:
    """Return the frames of an exception, a thread or an event, the innermost last."""
    frames = as_dict(holder.get("stacktrace")).get("frames")
    return [frame for frame in as_list(frames)[-_MAX_FRAMES:] if isinstance(frame, dict)]


def _message_frames(event: dict[str, Any]) -> list[Frame]:
    for holder in (event, *as_list(event.get("threads"))):
        if frames := frames_of(as_dict(holder)):
            return frames
    return []


def _write_python(exceptions: Sequence[dict[str, Any]]) -> str:
    parts = []
    for number, exception in enumerate(exceptions):
        if number:
            source = as_dict(exceptions[number - 1].get("mechanism")).get("source")
            parts.append(f"\n{_CAUSES['__context__' if source == '__context__' else None]}\n")
        if frames := frames_of(exception):
            parts.append(_write_frames(frames, "python"))
        parts.append(describe_exception(exception))
    return "\n".join(parts)


def _write_frames(frames: Sequence[Frame], platform: str) -> str:
    if platform == "python":
        return "\n".join(["Traceback (most recent call last):", *map(_python_frame, frames)])
    write = _FRAMES.get(platform, _at_frame)
    return "\n".join(write(frame) for frame in reversed(frames))


def _file(frame: Frame) -> str:
    # The relative name comes first: the folder of a release changes with each deployment, and would split issues.
    for name in ("filename", "abs_path", "module", "package"):
        if text := as_text(frame.get(name), _TEXT):
            return text
    return "<unknown>"


def _function(frame: Frame) -> str:
    function = as_text(frame.get("function"), _TEXT)
    return "" if function == "?" else function


def _line(frame: Frame) -> str:
    return as_text(frame.get("lineno")) or "0"


def _python_frame(frame: Frame) -> str:
    text = f'  File "{_file(frame)}", line {_line(frame)}, in {_function(frame) or "<unknown>"}'
    source = as_text(frame.get("context_line"), _TEXT).strip()
    return f"{text}\n    {source}" if source else text


def _at_frame(frame: Frame) -> str:
    position = _file(frame)
    for name in ("lineno", "colno"):
        if number := as_text(frame.get(name)):
            position += f":{number}"
    function = _function(frame)
    return f"    at {function} ({position})" if function else f"    at {position}"


def _java_frame(frame: Frame) -> str:
    module, function = as_text(frame.get("module"), _TEXT), _function(frame)
    name = f"{module}.{function}" if module and function else module or function or "<unknown>"
    return f"\tat {name}({_file(frame)}:{_line(frame)})"


def _ruby_frame(frame: Frame) -> str:
    return f"\tfrom {_file(frame)}:{_line(frame)}:in '{_function(frame) or '<main>'}'"


def _go_frame(frame: Frame) -> str:
    module, function = as_text(frame.get("module"), _TEXT), _function(frame)
    name = f"{module}.{function}" if module and function else module or function or "<unknown>"
    return f"{name}(...)\n\t{_file(frame)}:{_line(frame)}"


_FRAMES: dict[str, Callable[[Frame], str]] = {"java": _java_frame, "ruby": _ruby_frame, "go": _go_frame}
