"""What only the operator of the machine may do: it is above all accounts, so no API token can reach it."""
