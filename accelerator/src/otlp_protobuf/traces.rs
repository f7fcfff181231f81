//! `ExportTraceServiceRequest`.

use super::values::key_value;
use super::wire::{Value, each_field, skip_unknown, text};
use super::{Limits, is_id, validate_request};
use crate::measure::Measure;
use crate::seen::Seen;

/// Measures a request whose spans are all valid.
pub fn validate_traces(body: &[u8], limits: Limits) -> Option<Measure> {
    validate_request(body, limits.groups, |span, measure| {
        validate_span(span, measure)?;
        measure.add_record(limits.records)
    })
}

fn validate_span(message: &[u8], measure: &mut Measure) -> Option<()> {
    let (mut trace_id, mut span_id): (&[u8], &[u8]) = (b"", b"");
    let (mut start, mut end) = (0, 0);
    let mut seen = Seen::default();
    each_field(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(id)) => trace_id = id,
            (2, Value::Bytes(id)) => span_id = id,
            (4, Value::Bytes(_)) => {}
            (3 | 5, Value::Bytes(string)) => text(string)?,
            (6 | 10 | 12 | 14, Value::Varint(_)) | (16, Value::Fixed32) => {}
            (7, Value::Fixed64(time)) => start = time,
            (8, Value::Fixed64(time)) => end = time,
            (9, Value::Bytes(attribute)) => key_value(attribute)?,
            (11, Value::Bytes(event)) => {
                measure.children += 1;
                validate_event(event)?;
            }
            (13, Value::Bytes(link)) => {
                measure.children += 1;
                validate_link(link)?;
            }
            (15, Value::Bytes(status)) => {
                seen.once(0)?;
                validate_status(status)?;
            }
            _ => skip_unknown(number, 16)?,
        }
        Some(())
    })?;
    (is_id(trace_id, 16) && is_id(span_id, 8) && start <= end).then_some(())
}

fn validate_event(message: &[u8]) -> Option<()> {
    each_field(message, |number, value| match (number, value) {
        (1, Value::Fixed64(_)) | (4, Value::Varint(_)) => Some(()),
        (2, Value::Bytes(name)) => text(name),
        (3, Value::Bytes(attribute)) => key_value(attribute),
        _ => skip_unknown(number, 4),
    })
}

fn validate_link(message: &[u8]) -> Option<()> {
    each_field(message, |number, value| match (number, value) {
        (1 | 2, Value::Bytes(_)) | (5, Value::Varint(_)) | (6, Value::Fixed32) => Some(()),
        (3, Value::Bytes(state)) => text(state),
        (4, Value::Bytes(attribute)) => key_value(attribute),
        _ => skip_unknown(number, 6),
    })
}

fn validate_status(message: &[u8]) -> Option<()> {
    each_field(message, |number, value| match (number, value) {
        (2, Value::Bytes(message)) => text(message),
        (3, Value::Varint(_)) => Some(()),
        _ => skip_unknown(number, 3),
    })
}
