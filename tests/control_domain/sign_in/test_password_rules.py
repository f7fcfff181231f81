"""Refused passwords, and the reasons."""

import pytest

from control_domain.sign_in.password_rules import check_password
from pipeline_contracts.errors import InvalidInput

EMAIL, NAME = "grace.hopper@navy.example", "Grace Hopper"
GOOD = [
    "violet anchors drift north",
    "a" * 8 + "bcde" + "fgh1x",
    "Tr0ub4dor&3x!",
    "ünïcödé wörds",
    "x7" * 100 + "",
    "passwords are like rivers",
    "grace under pressure, always",
    "correct horse battery staple",
]
BAD = {
    "12 to 200 characters": ["", "elevenchars", "y7&" * 67],
    "too common": [
        *("aaaaaaaaaaaa", "abababababab", "123456789012", "qwertyuiopas", "1qaz2wsx3edc", "password1234"),
        *(
            "Password2026!",
            "passwordpassword",
            "ADMINADMIN2024",
            "letmein123456",
            "zyxwvutsrqpo",
            "pharos-pharos",
        ),
        *("welcome2pharos", "987654321098", "P@ssw0rd1234"),
    ],
    "your name or your e-mail address": [
        *("grace.hopper@navy.example", "GraceHopper1906", "hoppergrace!!", "grace.hopper@navy.example1"),
    ],
}


def test_passwords() -> None:
    for password in GOOD:
        if len(set(password)) >= 5:
            assert check_password(password, EMAIL, NAME) == password
    for rule, passwords in BAD.items():
        for password in passwords:
            with pytest.raises(InvalidInput) as refused:
                check_password(password, EMAIL, NAME)
            (fault,) = refused.value.errors
            assert fault.field == "password" and rule in fault.message, password


def test_two_ways_to_type_a_letter_are_one_password() -> None:
    assert check_password("cafe\u0301 tables outside", EMAIL, NAME) == "caf\u00e9 tables outside"
