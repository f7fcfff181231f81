"""Commands that only an operator of the machine may run: they are above all accounts, or need the machine itself.

They use the operator socket of the running `pharos up`, or the engines of the settings of separate processes.
Everything else goes through the management API (`operator_cli.api`).
"""
