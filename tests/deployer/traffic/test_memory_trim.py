"""Release of the proxy's memory."""

from deployer.traffic.proxy.watch import MemoryTrim


def test_a_trim_is_due_after_a_wave_of_requests() -> None:
    memory = MemoryTrim()
    assert [memory.is_due(count) for count in (10, 600, 550, 301, 299, 250, 0, 0)] == [
        *(False, False, False, False, True, False, True, False)
    ]
