-- The embedded event log. Offsets count records; a frame holds the records of one group commit.
CREATE TABLE IF NOT EXISTS log_identity (log_id TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS topics (
    topic        TEXT PRIMARY KEY,
    next_offset  INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL DEFAULT 0  -- sum of frames.size, changed in the same transactions
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS frames (
    id         INTEGER PRIMARY KEY,
    topic      TEXT NOT NULL,
    first      INTEGER NOT NULL,  -- offset of the first record
    past_last  INTEGER NOT NULL,  -- offset after the last record
    size       INTEGER NOT NULL,  -- bytes of payload as stored
    payload    BLOB NOT NULL      -- zstd of MessagePack [[key, meta, value], ...]
);
CREATE UNIQUE INDEX IF NOT EXISTS frames_by_end ON frames (topic, past_last);

CREATE TABLE IF NOT EXISTS positions (
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    next_offset    INTEGER NOT NULL,
    plan_end       INTEGER,       -- end of the chunk being inserted; NULL: none
    PRIMARY KEY (consumer_group, topic)
) WITHOUT ROWID;
