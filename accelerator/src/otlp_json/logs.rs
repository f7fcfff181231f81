//! `ExportLogsServiceRequest`.

use super::values::{any_value, attributes, int32, object, skip_unknown, text, uint32, unsigned};
use super::{FRAME_BYTES, Levels, encoded_bytes, validate_request};
use crate::json::Cursor;
use crate::measure::Measure;
use crate::seen::Seen;

const LEVELS: Levels = Levels {
    resources: b"resourceLogs",
    scopes: b"scopeLogs",
    records: b"logRecords",
};

/// Measures a request whose log records are all valid, and of `record_bytes` at most.
pub fn validate_logs(body: &[u8], max_records: u64, record_bytes: usize) -> Option<Measure> {
    validate_request(body, &LEVELS, |cursor, measure| {
        let bytes = encoded_bytes(cursor, validate_record)?;
        // No record is larger than the body.
        if body.len() > record_bytes && bytes + FRAME_BYTES > record_bytes {
            return None;
        }
        measure.add_record(max_records)
    })
}

fn validate_record(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"timeUnixNano" => {
            seen.once(0)?;
            unsigned(cursor).map(|_| ())
        }
        b"observedTimeUnixNano" => {
            seen.once(1)?;
            unsigned(cursor).map(|_| ())
        }
        b"severityNumber" => {
            seen.once(2)?;
            int32(cursor)
        }
        b"severityText" => {
            seen.once(3)?;
            text(cursor)
        }
        b"body" => {
            seen.once(4)?;
            any_value(cursor)
        }
        b"attributes" => {
            seen.once(5)?;
            attributes(cursor)
        }
        b"flags" => {
            seen.once(6)?;
            uint32(cursor).map(|_| ())
        }
        b"traceId" => {
            seen.once(7)?;
            text(cursor)
        }
        b"spanId" => {
            seen.once(8)?;
            text(cursor)
        }
        b"eventName" => {
            seen.once(9)?;
            text(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}
