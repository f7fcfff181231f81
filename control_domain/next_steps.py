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


# Projects and environments

GIVE_ENVIRONMENT_TYPE = "give it with --type."
LIST_ENVIRONMENT_SETTINGS = "`pharos environment set --help` lists what can be."
NAME_BOTH_PEOPLE = "say who asks for it with --by EMAIL, and who agrees with --approved-by EMAIL."


def list_all(kind: str) -> str:
    """`kind`: account, project or environment."""
    return f"`pharos {kind} list` shows all."


def grant_project_role(project_slug: str, email: str, role: str) -> str:
    return (
        "name somebody else, or give them a role "
        f"with `pharos project grant {project_slug} {email} --role {role}`."
    )
