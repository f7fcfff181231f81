"""What a person can do next after a refusal, in words of the command line.

The only module of the control domain that names commands and flags: the parts of messages that would differ if people
used another client.
"""

# Configurations.

APPLY_WITH_SECOND_PERSON = (
    "somebody has to make the review, and somebody else, who may decide in the project, has to apply it (`pharos "
    "config apply` takes both with --by EMAIL and --approved-by EMAIL)."
)
RETRY_WITH_SECOND_PERSON = (
    "somebody else than who made the review, who may decide in the project, has to try it again (`pharos config retry` "
    "takes that person with --by EMAIL). Or make a new review."
)
REMOVE_PROJECT_AS_OPERATOR = "an operator does, with `pharos project remove`."
