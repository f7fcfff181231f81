"""Operations for the operator of the machine alone. They concern all accounts, so no API token allows them."""
