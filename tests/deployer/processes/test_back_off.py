from deployer.processes.back_off import delay_before_restart


def test_delays_double_up_to_a_minute() -> None:
    assert [delay_before_restart(runs) for runs in range(1, 11)] == [0.1, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert delay_before_restart(10**9) == 60
