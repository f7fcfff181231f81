"""Settings that make one insert one block, the same one each time: the de-duplication token counts per block."""

MAX_ROWS = 100_000
MAX_BYTES = 64 * 2**20


def one_block(token: str, before: int = 0) -> dict[str, str | int]:
    """The settings of an insert of at most `MAX_ROWS` rows and `MAX_BYTES` bytes.

    `before`: from when on the store refuses it, in seconds since 1970 by its clock; 0: never.

    A block that was cut elsewhere (other defaults of the session, parallel parsing) would get another ordinal
    behind the token and be stored twice. Each of these has been seen, or is documented, to move the cut.
    """
    return {
        "insert_deduplication_token": token,
        # Read by the constraint `inserted_in_time` of the tables. A setting of our own would have to be allowed in the
        # server's configuration, and a member of the rows would cost a copy of them all.
        "log_comment": f"insert before {before}" if before else "",
        "insert_deduplicate": 1,
        "deduplicate_insert": "enable",
        # A repeat goes on to the materialized views of the table, which drop it by the same token: the try before may
        # have ended between the table and its view.
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
