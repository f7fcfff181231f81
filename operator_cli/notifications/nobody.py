"""Warns that nobody is notified, if there is no rule and the default rule has no recipient."""

from operator_cli.api.client import Api
from operator_cli.errors import CommandFailed
from operator_cli.messages import qualify_commands
from operator_cli.notifications.find import DEFAULT_RULE, RULES


def warn_if_nobody_is_notified(api: Api) -> None:
    """Print the reason and the next step. Print nothing if somebody is notified, or if the rules cannot be read."""
    try:
        default = api.get(DEFAULT_RULE)
        if not default["applies"] or default.get("nobody") is None or api.get_all(RULES, limit=1):
            return
    except CommandFailed:
        return
    print(qualify_commands(f"\n{default['nobody']} `pharos rules create` creates one."))
