"""What a person can do next after a refusal, in words of the command line.

The only module of the control domain that names commands and flags: the parts of messages that would differ if people
used another client.
"""

# Names and slugs

EXAMPLE_SLUG = "like --slug my-shop."

# Accounts and people

LIST_PEOPLE = "`pharos person list` shows all."
CHANGE_ROLE = "`pharos person set-role` changes the role."
GIVE_NAME_OF_PERSON = "give a name as well, with --name."


def add_to_account(email: str, account_slug: str) -> str:
    return f"add them with `pharos person add {email} --account {account_slug}`."


# Accounts and projects


def list_all(kind: str) -> str:
    """`kind`: account or project."""
    return f"`pharos {kind} list` shows all."
