"""Settings that store each insert as one block, with the same rows in every retry, because a deduplication token
applies to a block."""

MAX_ROWS = 100_000
MAX_BYTES = 64 * 2**20


def one_block(token: str, before: int = 0) -> dict[str, str | int]:
    """Return the settings of an insert of at most `MAX_ROWS` rows and `MAX_BYTES` bytes.

    `before`: the deadline in seconds since 1970, by the store's clock. 0: no deadline.

    The engine appends the number of a block to the token. If a retry cut the rows into different blocks (because of
    other defaults of the session, or parallel parsing), rows would be stored twice. Each of these settings changes
    where blocks are cut, as documented or as seen in tests.
    """
    return {
        "insert_deduplication_token": token,
        # The constraint `inserted_in_time` of the tables reads this setting. A custom setting would have to be allowed
        # in the server's configuration, and a column would need a copy of all rows.
        "log_comment": f"insert before {before}" if before else "",
        "insert_deduplicate": 1,
        "deduplicate_insert": "enable",
        # A retry also reaches the materialized views of the table, which drop the block by the same token: the
        # previous attempt may have ended after the table and before its view.
        "deduplicate_blocks_in_dependent_materialized_views": 1,
        "async_insert": 0,
        "input_format_parallel_parsing": 0,
        "max_insert_threads": 1,
        "max_block_size": 2 * MAX_ROWS,
        "max_insert_block_size": 2 * MAX_ROWS,
        "max_insert_block_size_bytes": 0,
        "use_strict_insert_block_limits": 0,
        "input_format_max_block_size_bytes": 0,
        "input_format_max_block_wait_ms": 0,
        "min_insert_block_size_rows": 2 * MAX_ROWS,
        "min_insert_block_size_bytes": 4 * MAX_BYTES,
        "date_time_input_format": "best_effort",
        "input_format_json_read_objects_as_strings": 1,
        "input_format_null_as_default": 1,
    }
