"""CPU time and memory of a process, read from outside of it, and the size of the machine."""

from pathlib import Path

import psutil


def cpu_seconds(pid: int) -> float:
    """User and system time that the process and its threads have used so far, in seconds (to about 0.01)."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def thread_cpu_seconds(pid: int) -> dict[int, float]:
    """User and system time by thread (the system's thread ID), in seconds (to about 0.01 each)."""
    return {t.id: t.user_time + t.system_time for t in psutil.Process(pid).threads()}


def resident_mb(pid: int) -> float:
    """Resident memory now, in MB (2^20 bytes)."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def peak_mb(pid: int) -> float:
    """The most resident memory since the start or the last `forget_peak`, in MB (2^20 bytes).

    Linux counts it; elsewhere it is what is resident now.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return resident_mb(pid)
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def forget_peak(pid: int) -> None:
    """Let the peak begin again from what is resident now, where the system can (Linux)."""
    try:
        # proc_pid_clear_refs(5): 5 resets the high-water mark.
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return


def machine_size() -> tuple[int, float]:
    """Logical cores, and GB (2^30 bytes) of memory."""
    return psutil.cpu_count() or 0, psutil.virtual_memory().total / 2**30
