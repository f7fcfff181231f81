//! `ExportLogsServiceRequest`.

use super::values::{any_value, key_value};
use super::wire::{Value, each_field, skip_unknown, text};
use super::{Limits, validate_request};
use crate::measure::Measure;
use crate::seen::Seen;

/// A record that is encoded again can be longer: a negative enum of five bytes takes ten.
const GROWTH: usize = 2;

/// Measures a request whose log records are all valid, and of `record_bytes` at most.
pub fn validate_logs(body: &[u8], limits: Limits, record_bytes: usize) -> Option<Measure> {
    validate_request(body, limits.groups, |record, measure| {
        // No record is larger than the body.
        if body.len() > record_bytes && record.len().saturating_mul(GROWTH) > record_bytes {
            return None;
        }
        validate_record(record)?;
        measure.add_record(limits.records)
    })
}

fn validate_record(message: &[u8]) -> Option<()> {
    let mut seen = Seen::default();
    each_field(message, |number, value| match (number, value) {
        (1 | 11, Value::Fixed64(_)) | (2 | 7, Value::Varint(_)) | (8, Value::Fixed32) => Some(()),
        (9 | 10, Value::Bytes(_)) => Some(()),
        (3 | 12, Value::Bytes(string)) => text(string),
        (5, Value::Bytes(body)) => {
            seen.once(0)?;
            any_value(body)
        }
        (6, Value::Bytes(attribute)) => key_value(attribute),
        _ => skip_unknown(number, 12),
    })
}
