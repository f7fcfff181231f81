//! `ExportTraceServiceRequest`.

use super::values::{
    array, attributes, hex_id, int32, object, optional_object, skip_unknown, text, uint32, unsigned,
};
use super::{Levels, validate_request};
use crate::json::Cursor;
use crate::measure::Measure;
use crate::seen::Seen;

const LEVELS: Levels = Levels {
    resources: b"resourceSpans",
    scopes: b"scopeSpans",
    records: b"spans",
};

/// Measures a request whose spans are all valid.
pub fn validate_traces(body: &[u8], max_records: u64) -> Option<Measure> {
    validate_request(body, &LEVELS, |cursor, measure| {
        validate_span(cursor, measure)?;
        measure.add_record(max_records)
    })
}

const TRACE_ID: u32 = 0;
const SPAN_ID: u32 = 1;

fn validate_span(cursor: &mut Cursor, measure: &mut Measure) -> Option<()> {
    let (mut start, mut end) = (0, 0);
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"traceId" => {
            seen.once(TRACE_ID)?;
            hex_id::<32>(cursor)
        }
        b"spanId" => {
            seen.once(SPAN_ID)?;
            hex_id::<16>(cursor)
        }
        b"parentSpanId" => {
            seen.once(2)?;
            text(cursor)
        }
        b"flags" => {
            seen.once(3)?;
            uint32(cursor).map(|_| ())
        }
        b"name" => {
            seen.once(4)?;
            text(cursor)
        }
        b"kind" => {
            seen.once(5)?;
            int32(cursor)
        }
        b"startTimeUnixNano" => {
            seen.once(6)?;
            start = unsigned(cursor)?;
            Some(())
        }
        b"endTimeUnixNano" => {
            seen.once(7)?;
            end = unsigned(cursor)?;
            Some(())
        }
        b"attributes" => {
            seen.once(8)?;
            attributes(cursor)
        }
        b"events" => {
            seen.once(9)?;
            measure.children += array(cursor, validate_event)? as u64;
            Some(())
        }
        b"links" => {
            seen.once(10)?;
            measure.children += array(cursor, validate_link)? as u64;
            Some(())
        }
        b"status" => {
            seen.once(11)?;
            validate_status(cursor)
        }
        b"traceState" => {
            seen.once(12)?;
            text(cursor)
        }
        _ => skip_unknown(cursor, name),
    })?;
    (seen.contains(TRACE_ID) && seen.contains(SPAN_ID) && start <= end).then_some(())
}

fn validate_event(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"timeUnixNano" => {
            seen.once(0)?;
            unsigned(cursor).map(|_| ())
        }
        b"name" => {
            seen.once(1)?;
            text(cursor)
        }
        b"attributes" => {
            seen.once(2)?;
            attributes(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}

fn validate_link(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"traceId" => {
            seen.once(0)?;
            text(cursor)
        }
        b"spanId" => {
            seen.once(1)?;
            text(cursor)
        }
        b"traceState" => {
            seen.once(2)?;
            text(cursor)
        }
        b"attributes" => {
            seen.once(3)?;
            attributes(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}

fn validate_status(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    optional_object(cursor, |cursor, name| match name {
        b"code" => {
            seen.once(0)?;
            int32(cursor)
        }
        b"message" => {
            seen.once(1)?;
            text(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}
