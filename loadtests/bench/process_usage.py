"""Reads the CPU time and the memory of a process from outside, and the size of the machine."""

from pathlib import Path

import psutil


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of the process with all its threads so far, in seconds (to about 0.01)."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def thread_cpu_seconds(pid: int) -> dict[int, float]:
    """Return the user and system time of each thread in seconds (to about 0.01), by the system's thread ID."""
    return {t.id: t.user_time + t.system_time for t in psutil.Process(pid).threads()}


def resident_mb(pid: int) -> float:
    """Return the current resident memory in MB (2^20 bytes)."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def peak_mb(pid: int) -> float:
    """Return the peak of the resident memory in MB (2^20 bytes), since the start or the last `forget_peak`. On other
    systems than Linux, return the current resident memory."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return resident_mb(pid)
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def forget_peak(pid: int) -> None:
    """Make the current resident memory the new peak. Works on Linux only."""
    try:
        # proc_pid_clear_refs(5): 5 resets the high-water mark.
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return


def machine_size() -> tuple[int, float]:
    """Return the number of logical cores, and the memory in GB (2^30 bytes)."""
    return psutil.cpu_count() or 0, psutil.virtual_memory().total / 2**30
