//! OTLP in JSON. A body with snake_case members, or with any value that the edge repairs, is left to Python.

mod logs;
mod metrics;
mod traces;
mod values;

pub use logs::validate_logs;
pub use metrics::validate_metrics;
pub use traces::validate_traces;

use crate::json::Cursor;
use crate::measure::Measure;
use crate::seen::Seen;
use values::{MAX_UINT32, array, object, optional_object, skip_unknown, text};

/// JSON adds at most this many bytes to the members that it encodes: brackets, commas and `null`.
const FRAME_BYTES: usize = 32;
/// The longest text of a 64-bit floating point number.
const DOUBLE_BYTES: usize = 24;
/// `service.name` has a separate column in addition to the column of all attributes.
const RESOURCE_COPIES: usize = 2;

/// The names of the three levels of a request.
struct Levels {
    resources: &'static [u8],
    scopes: &'static [u8],
    records: &'static [u8],
}

/// Validates a request; `record` validates one item of the innermost level, and counts its records.
fn validate_request(
    body: &[u8],
    levels: &Levels,
    mut record: impl FnMut(&mut Cursor, &mut Measure) -> Option<()>,
) -> Option<Measure> {
    let mut cursor = Cursor::new(body)?;
    let mut measure = Measure::default();
    let mut seen = Seen::default();
    object(&mut cursor, |cursor, name| {
        if name != levels.resources {
            return skip_unknown(cursor, name);
        }
        seen.once(0)?;
        array(cursor, |cursor| {
            validate_resource_group(cursor, levels, &mut measure, &mut record)
        })
        .map(|_| ())
    })?;
    cursor.end()?;
    Some(measure)
}

fn validate_resource_group(
    cursor: &mut Cursor,
    levels: &Levels,
    measure: &mut Measure,
    record: &mut impl FnMut(&mut Cursor, &mut Measure) -> Option<()>,
) -> Option<()> {
    let first = measure.records;
    let mut bytes = FRAME_BYTES;
    let mut seen = Seen::default();
    object(cursor, |cursor, name| {
        if name == levels.scopes {
            seen.once(0)?;
            return array(cursor, |cursor| {
                validate_scope_group(cursor, levels.records, measure, record)
            })
            .map(|_| ());
        }
        match name {
            b"resource" => {
                seen.once(1)?;
                bytes += row_bytes(cursor, validate_resource)?;
                Some(())
            }
            b"schemaUrl" => {
                seen.once(2)?;
                bytes += row_bytes(cursor, text)?;
                Some(())
            }
            _ => skip_unknown(cursor, name),
        }
    })?;
    measure.add_shared(first, RESOURCE_COPIES * bytes);
    Some(())
}

fn validate_scope_group(
    cursor: &mut Cursor,
    records: &[u8],
    measure: &mut Measure,
    record: &mut impl FnMut(&mut Cursor, &mut Measure) -> Option<()>,
) -> Option<()> {
    let first = measure.records;
    let mut bytes = FRAME_BYTES;
    let mut seen = Seen::default();
    object(cursor, |cursor, name| {
        if name == records {
            seen.once(0)?;
            return array(cursor, |cursor| record(cursor, measure)).map(|_| ());
        }
        match name {
            b"scope" => {
                seen.once(1)?;
                bytes += row_bytes(cursor, validate_scope)?;
                Some(())
            }
            b"schemaUrl" => {
                seen.once(2)?;
                bytes += row_bytes(cursor, text)?;
                Some(())
            }
            _ => skip_unknown(cursor, name),
        }
    })?;
    measure.add_shared(first, bytes);
    Some(())
}

fn validate_resource(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    optional_object(cursor, |cursor, name| match name {
        b"attributes" => {
            seen.once(0)?;
            values::attributes(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}

fn validate_scope(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    optional_object(cursor, |cursor, name| match name {
        b"name" => {
            seen.once(0)?;
            text(cursor)
        }
        b"version" => {
            seen.once(1)?;
            text(cursor)
        }
        b"attributes" => {
            seen.once(2)?;
            values::attributes(cursor)
        }
        b"droppedAttributesCount" => {
            seen.once(3)?;
            values::integer(cursor, 0, MAX_UINT32).map(|_| ())
        }
        _ => skip_unknown(cursor, name),
    })
}

/// Returns an upper bound of a value's bytes in a row. Attributes are stored as text, whose escapes are escaped again.
fn row_bytes(
    cursor: &mut Cursor,
    validate: impl FnOnce(&mut Cursor) -> Option<()>,
) -> Option<usize> {
    let backslashes = cursor.backslashes;
    let bytes = encoded_bytes(cursor, validate)?;
    Some(bytes + 2 * (cursor.backslashes - backslashes))
}

/// Returns an upper bound of a value's bytes when it is encoded again: only numbers can become longer (`1e15`).
fn encoded_bytes(
    cursor: &mut Cursor,
    validate: impl FnOnce(&mut Cursor) -> Option<()>,
) -> Option<usize> {
    let (position, doubles) = (cursor.position(), cursor.doubles);
    validate(cursor)?;
    Some(cursor.position() - position + DOUBLE_BYTES * (cursor.doubles - doubles))
}
