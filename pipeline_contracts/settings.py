"""All settings of Pharos with their defaults. `read_settings` reads them from the variables of a process."""

from dataclasses import dataclass, field
from typing import Any

PREFIX = "PHAROS_"


class BadSettings(Exception):
    """Unusable variables, one line for each."""


def _setting(
    default: Any,
    meaning: str,
    *,
    minimum: float | None = None,
    secret: bool = False,
    shortest: int = 1,
    choices: tuple[str, ...] = (),
    is_address: bool = False,
) -> Any:
    return field(
        default=default,
        repr=not secret,
        metadata={
            "meaning": meaning,
            "minimum": minimum,
            "secret": secret,
            "shortest": shortest,
            "choices": choices,
            "is_address": is_address,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings with their defaults. The variable of `max_body_bytes` is `PHAROS_MAX_BODY_BYTES`."""

    # Log lines, metrics, the first account, keys
    log_level: str = _setting(
        "info", "Lowest level of log lines that are written", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "auto", "Format of log lines; auto: text on a terminal, else JSON", choices=("auto", "json", "text")
    )
    metrics_listen: str | None = _setting(
        None,
        "host:port of /metrics, for Prometheus (127.0.0.1, and the port of the process plus 100)",
        is_address=True,
    )
    ingest_rate: float | None = _setting(
        None,
        "Events a second of the first account of `pharos up` (5000 if none was set before)",
        minimum=0.001,
    )
    ingest_burst: int | None = _setting(
        None, "Events at once of the first account of `pharos up` (50000 if none was set before)", minimum=1
    )
    owner_email: str | None = _setting(
        None,
        "E-mail address of the first account's owner, for notifications; replaces owner@localhost at the next start",
    )
    receipt_key: str | None = _setting(
        None,
        "Key that seals receipt IDs, 32 characters or more; the same for edge and control (`pharos up` makes its own)",
        secret=True,
        shortest=32,
    )
    variables_key: str | None = _setting(
        None,
        "Key that encrypts variables, 32 characters or more; new,old to rotate (`pharos up` makes its own)",
        secret=True,
        shortest=32,
    )

    # Kafka
    kafka_bootstrap: str | None = _setting(None, "Bootstrap brokers, host:port,host:port")
    kafka_security: str = _setting(
        "plaintext",
        "Protocol of the connections to brokers",
        choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    )
    kafka_sasl_mechanism: str = _setting(
        "scram-sha-512", "SASL mechanism for the brokers", choices=("plain", "scram-sha-256", "scram-sha-512")
    )
    kafka_username: str | None = _setting(None, "User name for the brokers")
    kafka_password: str | None = _setting(None, "The user's password", secret=True)
    kafka_ca_file: str | None = _setting(
        None, "PEM file of the authority that signed the brokers' certificates"
    )
    kafka_certificate_file: str | None = _setting(None, "PEM file of this client's certificate")
    kafka_key_file: str | None = _setting(None, "PEM file of the certificate's key")
    kafka_partitions: int = _setting(12, "Partitions of a topic that `pharos migrate` makes", minimum=1)
    kafka_replicas: int = _setting(1, "Copies of each partition", minimum=1)
    kafka_min_insync_replicas: int = _setting(
        1, "Copies that must hold a record before it counts as stored", minimum=1
    )
    kafka_retention_hours: float = _setting(168.0, "Hours for which the brokers keep records", minimum=0.01)
    kafka_buffer_bytes: int = _setting(
        64 * 2**20, "Bytes that wait for the brokers before the edge returns 503", minimum=2**20
    )
    kafka_timeout_seconds: float = _setting(
        10.0, "Time in which the brokers must acknowledge a record", minimum=0.5
    )

    kafka_session_seconds: float = _setting(
        10.0, "Silence after which a consumer's partitions go to the others", minimum=1.0
    )

    # Other engines
    clickhouse_url: str | None = _setting(
        None, "ClickHouse server, http://user:password@host:8123 (https too)", secret=True
    )
    clickhouse_cluster: str | None = _setting(
        None, "Cluster on which the tables are made, with Replicated engines; without it: one server"
    )
    clickhouse_timeout_seconds: float = _setting(60.0, "Time that one statement may take", minimum=1.0)

    redis_url: str | None = _setting(
        None, "Redis, redis://user:password@host:6379/0 (rediss too)", secret=True
    )

    database_url: str | None = _setting(
        None, "The control plane's database, postgresql://user:password@host/name", secret=True
    )

    # Edge
    edge_workers: int = _setting(1, "Processes of one `pharos edge` that share its port", minimum=1)

    max_body_bytes: int = _setting(5 * 2**20, "Largest request body as sent", minimum=1024)
    max_decompressed_bytes: int = _setting(20 * 2**20, "Largest request body when decompressed", minimum=1024)
    max_batch_events: int = _setting(1000, "Maximum events in a batch", minimum=1)
    max_event_bytes: int = _setting(256 * 2**10, "Largest single event", minimum=256)
    max_in_flight_bytes: int = _setting(
        64 * 2**20, "Bytes of ingest and OTLP bodies in flight before the edge returns 503", minimum=1024
    )
    max_account_in_flight_bytes: int = _setting(
        32 * 2**20,
        "Bytes of ingest and OTLP bodies of one account in flight before the edge returns 503",
        minimum=1024,
    )
    max_monitor_in_flight_bytes: int = _setting(
        8 * 2**20,
        "Bytes of heartbeat and queue bodies in flight before the edge returns 503; one account gets half",
        minimum=1024,
    )
    max_collect_in_flight_bytes: int = _setting(
        16 * 2**20, "Bytes of page view bodies in flight before the edge returns 503", minimum=1024
    )
    max_address_in_flight_bytes: int = _setting(
        2**20,
        "Bytes of page view bodies of one client address in flight (IPv6: one /64 network)",
        minimum=1024,
    )
    accelerator: str = _setting(
        "auto",
        "Validate request bodies with the accelerator of `make accelerator` if it is installed, or only in Python",
        choices=("auto", "off"),
    )
    otlp_protobuf: bool = _setting(False, "Accept OTLP in protobuf as well as in JSON: 1 or 0")
    max_protobuf_bytes: int = _setting(
        4 * 2**20, "Largest OTLP body in protobuf when decompressed", minimum=1024
    )
    max_expanded_bytes: int = _setting(
        64 * 2**20,
        "Largest size of the rows of one OTLP request, each with the attributes of its resource and scope",
        minimum=2**20,
    )
    trusted_proxies: str | None = _setting(
        None, "Addresses and networks of proxies whose X-Forwarded-For is trusted: 10.0.0.0/8,::1"
    )
    country_header: str | None = _setting(
        None, "Header in which a trusted proxy sends a visitor's country, like CF-IPCountry"
    )
    country_database: str | None = _setting(
        None,
        "Database of countries by address, in MaxMind's format (`make country-database` downloads one)",
    )
    body_timeout_seconds: float = _setting(30.0, "Time in which a request body must arrive", minimum=0.1)
    body_grace_seconds: float = _setting(
        5.0,
        "Time after which a body must keep the minimum rate, and over which the rate is measured",
        minimum=0.1,
    )
    min_body_rate: int = _setting(
        1024, "Minimum rate of a request body, bytes a second; 0: no limit", minimum=0
    )
    max_head_bytes: int = _setting(
        32 * 2**10, "Longest head of a request: request line and all headers", minimum=1024
    )
    head_timeout_seconds: float = _setting(
        10.0, "Time in which a head must be complete once it has begun", minimum=0.1
    )
    max_connections_per_address: int = _setting(
        256,
        "Connections of one address to one process (IPv6: one /64 network); trusted proxies and this machine have no "
        "limit",
        minimum=1,
    )

    # Control plane and deployed applications
    max_app_requests: int = _setting(
        4000,
        "Requests, streams and WebSockets to deployed applications at once; one environment alone gets half of them",
        minimum=32,
    )

    account_request_rate: float = _setting(
        200.0, "Requests a second of one account to the control plane, and of one ingest key", minimum=0.1
    )
    account_request_burst: int = _setting(
        2000, "Burst of requests of an account: the bucket of PHAROS_ACCOUNT_REQUEST_RATE", minimum=1
    )
    address_request_rate: float = _setting(
        100.0,
        "Requests a second to the control plane of one client address (IPv6: one /64 network) without a known token",
        minimum=0.1,
    )
    address_request_burst: int = _setting(
        1000, "Burst of requests of an address: the bucket of PHAROS_ADDRESS_REQUEST_RATE", minimum=1
    )
    max_requests_at_once: int = _setting(
        32,
        "Requests of one account or address in progress at once in a control plane; eight times as many wait",
        minimum=1,
    )
    max_reports_at_once: int = _setting(
        3,
        "Reports in progress at once in a control plane; one account gets half of them, rounded up",
        minimum=1,
    )

    # Git hosts
    public_url: str | None = _setting(
        None, "URL at which people and Git hosts reach Pharos, https://pharos.example, for links"
    )
    oidc_issuer: str | None = _setting(
        None,
        "OpenID Connect provider with which people sign in, https://id.example (docs/operations/sign-in.md)",
    )
    oidc_client_id: str | None = _setting(None, "Client ID of this installation at the provider")
    oidc_client_secret: str | None = _setting(
        None, "Client secret of this installation at the provider", secret=True
    )
    oidc_name: str = _setting("single sign-on", "Name of the provider on the sign-in page")
    oidc_private_addresses: bool = _setting(
        False, "Allow a private or loopback address for the provider: 1 or 0"
    )
    repository_folders: str | None = _setting(
        None,
        "Folders of the machine that deploys, /srv/git,/home/git, in which repositories can be connected by path "
        "(`pharos up`: any folder; `pharos control`: none)",
    )
    git_app_secret: str | None = _setting(
        None,
        "Webhook secret of the Git host's application, 16 characters or more; without it, its webhooks are refused",
        secret=True,
        shortest=16,
    )
    github_token: str | None = _setting(
        None,
        "Token for commit statuses at GitHub; without it, none are sent",
        secret=True,
    )
    github_api_url: str = _setting(
        "https://api.github.com", "GitHub's API; https://HOST/api/v3 for GitHub Enterprise Server"
    )

    # Notifications
    smtp_url: str | None = _setting(
        None,
        "Mail server for notifications, smtp://user:password@host:587 (STARTTLS) or smtps://…:465; none: no e-mail",
        secret=True,
    )
    smtp_from: str | None = _setting(None, "Sender of e-mail: Pharos <pharos@example.org>")
    smtp_plaintext: bool = _setting(False, "Send e-mail without TLS if the server offers none: 1 or 0")
    notification_private_addresses: bool = _setting(
        False, "Allow channels to reach private and loopback addresses: 1 or 0"
    )
    notification_group_seconds: float = _setting(
        30.0, "Wait for further incidents before the first message of a group", minimum=0.0
    )
    notification_change_seconds: float = _setting(
        300.0, "Minimum time between two messages of a group", minimum=0.0
    )
    apprise: bool = _setting(
        False,
        "Allow channels of the type apprise, which reach any address: 1 or 0 (needs the package apprise)",
    )

    # Deployer
    deploy_domain: str = _setting(
        "localhost",
        "Domain of environments, at ENVIRONMENT.PROJECT.DOMAIN; its names must resolve to this host",
    )
    deploy_port: int | None = _setting(
        None, "Public port of deployed applications, if it is not the port listened on", minimum=1
    )
    deploy_folder: str | None = _setting(
        None, "Folder of `pharos deployer` for builds and running releases (`pharos up` has its own)"
    )
    deploy_telemetry_url: str | None = _setting(
        None,
        "URL at which deployed applications reach the edge, without /api (`pharos up`: its own; PHAROS_PUBLIC_URL)",
    )
    deploy_builds: int = _setting(2, "Maximum builds at once", minimum=1)
    deploy_log_bytes: int = _setting(
        10 * 2**20, "Longest log of a deployment; a deployment that prints more fails", minimum=65536
    )
    deploy_drain_seconds: float = _setting(
        30.0, "Time for an instance to finish its requests before it is stopped", minimum=0.0
    )
    deploy_memory_bytes: int = _setting(
        4 * 2**30, "Maximum memory of one process of an application or a build", minimum=2**26
    )
    deploy_processes: int = _setting(
        512,
        "Maximum processes of an environment, not counting the former release; builds have the same limit",
        minimum=8,
    )
    caddy_admin_url: str | None = _setting(
        None, "Admin API of a Caddy in front of deployed applications: unix:///run/caddy/admin.sock"
    )
    caddy_listen: str = _setting(
        "127.0.0.1:8090", "Address on which that Caddy listens for applications: host:port or :443"
    )

    # Embedded event log and consumers
    log_max_bytes: int = _setting(
        2 * 2**30, "Size of the embedded event log before the edge returns 503", minimum=2**20
    )
    min_free_bytes: int = _setting(
        128 * 2**20,
        "Free disk space of `pharos up` below which the edge returns 503 (rows are inserted down to 64 MiB)",
        minimum=0,
    )
    dead_letter_bytes: int = _setting(
        64 * 2**20,
        "Bytes of dead letters that the embedded event log keeps for each topic; then it removes the oldest",
        minimum=2**20,
    )
    chunk_rows: int = _setting(50_000, "Maximum rows in one insert", minimum=1)
    chunk_bytes: int = _setting(32 * 2**20, "Maximum bytes of events in one insert", minimum=1024)
    chunk_seconds: float = _setting(0.5, "Longest wait for a chunk to fill", minimum=0.01)
    drain_seconds: float = _setting(20.0, "Time for a shutdown to process accepted records", minimum=0.0)

    # Backups of `pharos up`
    backup_folder: str | None = _setting(
        None, "Folder for backups of `pharos up`, better on another disk (`backups` in the data folder)"
    )
    backup_hours: float = _setting(
        0.0, "Hours between scheduled backups of `pharos up`; 0: none, 24: daily", minimum=0.0
    )
    backup_keep: int = _setting(
        7, "Scheduled backups that are kept; those of `pharos backup create` stay until deleted", minimum=1
    )
