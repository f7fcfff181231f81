from deployer.processes.supervised_process import compute_restart_delay


def test_delays_double_up_to_a_minute() -> None:
    assert [compute_restart_delay(runs) for runs in range(1, 11)] == [0.1, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert compute_restart_delay(10**9) == 60
