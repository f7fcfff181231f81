"""Holds the address and the credentials of the brokers, for producers, consumers and the admin client."""

import ssl
from dataclasses import dataclass
from typing import Any

from pipeline_contracts.settings import Settings


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """The address and the credentials of a Kafka cluster."""

    bootstrap: str
    security: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "KafkaConnection":
        """Read the address and the credentials from the settings. Raises `ValueError` if the settings name no
        broker."""
        if settings.kafka_bootstrap is None:
            raise ValueError("PHAROS_KAFKA_BOOTSTRAP names no broker.")
        return cls(
            settings.kafka_bootstrap,
            settings.kafka_security.upper(),
            settings.kafka_sasl_mechanism.upper(),
            settings.kafka_username,
            settings.kafka_password,
            settings.kafka_ca_file,
            settings.kafka_certificate_file,
            settings.kafka_key_file,
        )

    def __repr__(self) -> str:
        # Leave out the password, because this text appears in logs.
        return f"KafkaConnection({self.bootstrap}, {self.security})"

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments that all clients of aiokafka need. Raises `OSError` and `ssl.SSLError` for
        certificate files that cannot be used."""
        options: dict[str, Any] = {
            "bootstrap_servers": [address.strip() for address in self.bootstrap.split(",")],
            "client_id": "pharos",
            "security_protocol": self.security,
            # A restarted broker must be found soon. The default takes minutes.
            "retry_backoff_ms": 100,
            "metadata_max_age_ms": 60_000,
        }
        if self.security.endswith("SSL"):
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file)
            options["ssl_context"] = context
        if self.security.startswith("SASL"):
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.username or ""
            options["sasl_plain_password"] = self.password or ""
        return options
