"""The sealing keys of a process, from its settings."""

from control_domain.sealing.sealing_keys import SealingKeys
from pipeline_contracts.settings import PREFIX, BadSettings


def read_sealing_keys(text: str) -> SealingKeys:
    """The keys in `PHAROS_VARIABLES_KEY`. Raises `BadSettings`, which does not repeat them."""
    try:
        return SealingKeys.read(text)
    except ValueError as error:
        raise BadSettings(f"{PREFIX}VARIABLES_KEY: {error}") from None
