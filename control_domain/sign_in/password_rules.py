"""Rules for passwords. They require length instead of special characters (NIST SP 800-63B, 3.1.1)."""

import unicodedata

from pipeline_contracts.errors import FieldError, InvalidInput, invalid_fields

SHORTEST = 12
LONGEST = 200
# Characters that must remain of a password without the person's name and address.
_SHORTEST_REST = 8
_SHORTEST_PART = 4
_FEWEST_CHARACTERS = 5
_SEQUENCES = (
    "01234567890123456789",
    "abcdefghijklmnopqrstuvwxyz",
    "qwertyuiopasdfghjklzxcvbnm",
    "1qaz2wsx3edc4rfv",
)
# The most common long passwords consist of these words, repeated, combined, and followed by digits.
_COMMON_WORDS = (
    *(
        "password",
        "passwort",
        "passw0rd",
        "p@ssw0rd",
        "p@ssword",
        "administrator",
        "admin",
        "welcome",
        "letmein",
    ),
    *(
        "changeme",
        "default",
        "secret",
        "qwerty",
        "qwertz",
        "azerty",
        "iloveyou",
        "sunshine",
        "princess",
        "football",
    ),
    *(
        "baseball",
        "superman",
        "batman",
        "pokemon",
        "monkey",
        "dragon",
        "master",
        "shadow",
        "trustno1",
        "starwars",
    ),
    *(
        "computer",
        "internet",
        "summer",
        "winter",
        "spring",
        "autumn",
        "login",
        "hello",
        "pharos",
        "test",
        "user",
    ),
)


def normalize_password(password: str) -> str:
    """Return the password in the Unicode form that is hashed: keyboards send different forms of the same text."""
    return unicodedata.normalize("NFC", password)


def check_password(password: str, email: str, name: str, field: str = "password") -> str:
    """Return the normalized password of a person with this address and name. Raises `InvalidInput`."""
    normalized = normalize_password(password)
    if not SHORTEST <= len(normalized) <= LONGEST:
        raise _invalid(field, f"must have {SHORTEST} to {LONGEST} characters")
    if _is_guessable(normalized.casefold()):
        raise _invalid(field, "is too common: choose several unrelated words")
    if _contains_person(normalized.casefold(), email.casefold(), name.casefold()):
        raise _invalid(field, "must not consist of your name or your e-mail address")
    return normalized


def _invalid(field: str, rule: str) -> InvalidInput:
    return invalid_fields([FieldError(field, rule)])


def _is_guessable(password: str) -> bool:
    if len(set(password)) < _FEWEST_CHARACTERS:
        return True
    rest = password
    for word in _COMMON_WORDS:
        rest = rest.replace(word, "")
    letters = "".join(each for each in rest if not each.isdigit() and each.isalnum())
    if len(rest) < len(password) and len(letters) < _SHORTEST_PART:
        return True
    return any(password in (row * 3, row[::-1] * 3) or password in row * 3 for row in _SEQUENCES) or any(
        password in (row * 3)[::-1] for row in _SEQUENCES
    )


def _contains_person(password: str, email: str, name: str) -> bool:
    """Return True if little is left of the password without the parts of the name and the address."""
    parts = [email, *email.replace("@", ".").split("."), name, *name.split()]
    rest = password
    for part in sorted({each for each in parts if len(each) >= _SHORTEST_PART}, key=len, reverse=True):
        rest = rest.replace(part, "")
    return len(rest) < len(password) and len(rest) < _SHORTEST_REST
