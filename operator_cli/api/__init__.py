"""The client of the management API.

A command opens it with its arguments, resolves names to objects, and prints the `data` of the response:

    def _run(arguments: argparse.Namespace) -> int:
        api = open_api(arguments)                                        # operator_cli.api.client
        environment = resolve_environment(api, arguments.environment)    # operator_cli.api.names
        deployments = api.get_all("environments", environment.id, "deployments", limit=20)
        return print_result(arguments, deployments, _show)               # operator_cli.messages

Every method takes the segments of the path below `/v1`, which it quotes. Failures are `CommandFailed` with a message
for people; a refusal of the API is the subclass `ApiRefused`, with status, type and document for commands that handle
refusals.
"""
