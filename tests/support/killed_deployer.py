"""A deployer that is killed at a point of a deployment and started again, and the log lines that it then writes."""

from dataclasses import dataclass

from control_domain.projects.find import DeployTarget
from tests.support.deploy_scenario import DeployScenario
from tests.support.deployer_process import DeployerProcess

INTERRUPTED = "The deployer was stopped during this deployment"
CHECKS_OUT = f"{INTERRUPTED}: it begins again with the check-out."
BEGINS = f"{INTERRUPTED}: it begins again."
STARTS = f"{INTERRUPTED}: it starts the release again."
SWITCHES = f"{INTERRUPTED}: it completes the switch of the traffic."
NOT_TWICE = (
    f"{INTERRUPTED}: the release steps may have run in part and are not run twice. The former release stays live; look "
    "at what they did, then deploy again."
)


@dataclass
class KilledDeployer:
    """A scenario with a deployer, and a project that has been deployed twice to staging."""

    scenario: DeployScenario
    deployer: DeployerProcess
    staging: DeployTarget
    production: DeployTarget

    async def check_recovery(self, number: int, message: str | None, target: DeployTarget) -> None:
        """Wait until the deployer has killed itself, start it again, and check the state afterwards.

        The log must contain `message` and the deployment end as it announces; one release is live, and nothing else is
        left.
        """
        await self.deployer.wait_killed()
        self.deployer.start()
        is_lost = message == NOT_TWICE
        try:
            status = await self.scenario.wait_final(number)
        except AssertionError:
            print(self.deployer.log_tail())
            raise
        assert status == ("failed" if is_lost else "succeeded")
        lines = await self.scenario.lines(number)
        assert [line for line in lines if INTERRUPTED in line] == ([] if message is None else [message])
        assert lines[-1] == message if is_lost else lines[-1].startswith("Live after ")
        await self.scenario.wait_settled(self.deployer)
        live = (await self.scenario.desired_state()).live
        host = f"{target.environment.slug}.{target.project.slug}.localhost"
        assert (live.get(host) == number) == (not is_lost)
