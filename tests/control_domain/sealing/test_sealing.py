"""Sealed variables: the keys that open them, their binding to an environment, and their secrecy."""

import hashlib
import hmac

import pytest

from control_domain.sealing import CannotOpen, Sealed, SealingKeys

_OLD = "an old secret of thirty-two chars"
_NEW = "a new secret of thirty-two letters"
_ENVIRONMENT = "env_01jz0000000000000000000000"
_OTHER = "env_01jz0000000000000000000001"
_VALUES = {"B": "hunter2", "A": 'é 🚀\n"\\', "EMPTY": ""}


def test_sealed_variables_open_in_their_order() -> None:
    keys = SealingKeys.read(_OLD)
    for values in (_VALUES, {}, {"A": "x" * 130_000}):
        opened = keys.open(keys.seal(values, _ENVIRONMENT), _ENVIRONMENT)
        assert list(opened.items()) == list(values.items())


def test_keys_of_the_same_secret_open_it_elsewhere() -> None:
    sealed = SealingKeys.read(_OLD).seal(_VALUES, _ENVIRONMENT)
    assert SealingKeys.read(_OLD).open(sealed, _ENVIRONMENT) == _VALUES


def test_stored_data_opens_in_later_versions() -> None:
    stored = Sealed(
        "4cede005",
        bytes.fromhex("0bc449da2460b1f27ba7e4c49333ecd02c3473570d117534138239875cb25ceee9c6752140"),
    )
    assert SealingKeys.read(_OLD).open(stored, _ENVIRONMENT) == {"A": "1"}


def test_the_key_is_derived_by_hkdf() -> None:
    extracted = hmac.digest(bytes(32), _OLD.encode(), "sha256")
    key = hmac.digest(extracted, b"pharos variables\x01", "sha256")
    sealed = SealingKeys.read(_OLD).seal(_VALUES, _ENVIRONMENT)
    assert sealed.key_id == hashlib.sha256(key).hexdigest()[:8]
    assert SealingKeys([key]).open(sealed, _ENVIRONMENT) == _VALUES


def test_the_same_variables_are_sealed_differently_each_time() -> None:
    keys = SealingKeys.read(_OLD)
    first, second = keys.seal(_VALUES, _ENVIRONMENT), keys.seal(_VALUES, _ENVIRONMENT)
    assert first.data[:12] != second.data[:12]
    assert first.data[12:] != second.data[12:]


def test_another_environments_variables_do_not_open() -> None:
    keys = SealingKeys.read(_OLD)
    with pytest.raises(CannotOpen, match=_OTHER):
        keys.open(keys.seal(_VALUES, _ENVIRONMENT), _OTHER)


def test_altered_byte_is_detected_at_every_position() -> None:
    keys = SealingKeys.read(_OLD)
    sealed = keys.seal(_VALUES, _ENVIRONMENT)
    for place in range(len(sealed.data)):
        altered = bytearray(sealed.data)
        altered[place] ^= 1
        with pytest.raises(CannotOpen, match="were altered"):
            keys.open(Sealed(sealed.key_id, bytes(altered)), _ENVIRONMENT)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 27, 28, -1])
def test_cut_data_does_not_open(length: int) -> None:
    keys = SealingKeys.read(_OLD)
    sealed = keys.seal(_VALUES, _ENVIRONMENT)
    with pytest.raises(CannotOpen, match="were altered"):
        keys.open(Sealed(sealed.key_id, sealed.data[:length]), _ENVIRONMENT)
    with pytest.raises(CannotOpen, match="were altered"):
        keys.open(Sealed(sealed.key_id, sealed.data + b"\0"), _ENVIRONMENT)


def test_with_new_and_old_the_first_seals_and_both_open() -> None:
    old, both, new = SealingKeys.read(_OLD), SealingKeys.read(f"{_NEW}, {_OLD}\n"), SealingKeys.read(_NEW)
    before = old.seal(_VALUES, _ENVIRONMENT)
    assert both.open(before, _ENVIRONMENT) == _VALUES
    assert not both.is_current(before.key_id)
    after = both.seal(_VALUES, _ENVIRONMENT)
    assert both.is_current(after.key_id)
    assert new.is_current(after.key_id)
    assert new.open(after, _ENVIRONMENT) == _VALUES


def test_a_dropped_key_is_named_with_what_to_do() -> None:
    sealed = SealingKeys.read(_OLD).seal(_VALUES, _ENVIRONMENT)
    with pytest.raises(CannotOpen) as refused:
        SealingKeys.read(_NEW).open(sealed, _ENVIRONMENT)
    assert f"the key {sealed.key_id}, which is not in PHAROS_VARIABLES_KEY" in str(refused.value)
    assert "new,old" in str(refused.value)


def test_another_keys_id_on_the_data_does_not_open() -> None:
    both = SealingKeys.read(f"{_NEW},{_OLD}")
    sealed = both.seal(_VALUES, _ENVIRONMENT)
    old_id = SealingKeys.read(_OLD).seal({}, _ENVIRONMENT).key_id
    with pytest.raises(CannotOpen, match="were altered"):
        both.open(Sealed(old_id, sealed.data), _ENVIRONMENT)


@pytest.mark.parametrize(
    "text",
    ["", "short", "s" * 31, " " * 40, f"{_OLD},", f",{_OLD}", f"{_NEW},,{_OLD}", f"{_NEW},short"],
)
def test_short_secret_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="^each secret needs 32 characters or more$"):
        SealingKeys.read(text)


@pytest.mark.parametrize("secret", ["s" * 32, "hémmelig " * 4, "\udcff" * 32, "s" * 5000])
def test_a_secret_may_be_any_text(secret: str) -> None:
    keys = SealingKeys.read(secret)
    assert keys.open(keys.seal(_VALUES, _ENVIRONMENT), _ENVIRONMENT) == _VALUES


def test_nothing_secret_is_shown() -> None:
    keys = SealingKeys.read(f"{_NEW},{_OLD}")
    sealed = keys.seal(_VALUES, _ENVIRONMENT)
    assert repr(sealed) == f"Sealed(key_id='{sealed.key_id}')"
    assert repr(keys).startswith(f"SealingKeys({sealed.key_id}, ")
    assert len(repr(keys)) == len("SealingKeys(01234567, 01234567)")
    assert str(keys) == repr(keys)
    assert b"hunter2" not in sealed.data
