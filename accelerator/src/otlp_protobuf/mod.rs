//! OTLP in protobuf, without building messages.

mod logs;
mod metrics;
mod traces;
mod values;
mod wire;

pub use logs::validate_logs;
pub use metrics::validate_metrics;
pub use traces::validate_traces;

use crate::measure::Measure;
use crate::seen::Seen;
use values::{resource_bytes, scope_bytes, text_bytes};
use wire::{Value, each_field, skip_unknown};

/// The number of strings in a row that may be empty: each takes its quotes and separators.
const EMPTY_TEXTS: usize = 16;
/// `service.name` has a separate column in addition to the column of all attributes.
const RESOURCE_COPIES: usize = 2;

/// The largest request that is validated.
#[derive(Clone, Copy)]
pub struct Limits {
    pub records: u64,
    /// Resources and scopes.
    pub groups: usize,
}

/// Validates a request; `record` validates one message of the innermost level, and counts its records. The three
/// levels have the same field numbers for all signals.
fn validate_request(
    body: &[u8],
    max_groups: usize,
    mut record: impl FnMut(&[u8], &mut Measure) -> Option<()>,
) -> Option<Measure> {
    let mut measure = Measure::default();
    let mut groups = max_groups;
    each_field(body, |number, value| match (number, value) {
        (1, Value::Bytes(group)) => {
            groups = groups.checked_sub(1)?;
            validate_resource_group(group, &mut groups, &mut measure, &mut record)
        }
        _ => skip_unknown(number, 1),
    })?;
    Some(measure)
}

fn validate_resource_group(
    message: &[u8],
    groups: &mut usize,
    measure: &mut Measure,
    record: &mut impl FnMut(&[u8], &mut Measure) -> Option<()>,
) -> Option<()> {
    let first = measure.records;
    let mut bytes = EMPTY_TEXTS;
    let mut seen = Seen::default();
    each_field(message, |number, value| match (number, value) {
        (1, Value::Bytes(resource)) => {
            seen.once(0)?;
            bytes += resource_bytes(resource)?;
            Some(())
        }
        (2, Value::Bytes(scope_group)) => {
            *groups = groups.checked_sub(1)?;
            validate_scope_group(scope_group, measure, record)
        }
        (3, Value::Bytes(url)) => {
            bytes += text_bytes(url)?;
            Some(())
        }
        _ => skip_unknown(number, 3),
    })?;
    measure.add_shared(first, RESOURCE_COPIES * bytes);
    Some(())
}

fn validate_scope_group(
    message: &[u8],
    measure: &mut Measure,
    record: &mut impl FnMut(&[u8], &mut Measure) -> Option<()>,
) -> Option<()> {
    let first = measure.records;
    let mut bytes = EMPTY_TEXTS;
    let mut seen = Seen::default();
    each_field(message, |number, value| match (number, value) {
        (1, Value::Bytes(scope)) => {
            seen.once(0)?;
            bytes += scope_bytes(scope)?;
            Some(())
        }
        (2, Value::Bytes(message)) => record(message, measure),
        (3, Value::Bytes(url)) => {
            bytes += text_bytes(url)?;
            Some(())
        }
        _ => skip_unknown(number, 3),
    })?;
    measure.add_shared(first, bytes);
    Some(())
}

/// Returns true if an ID has this many bytes, and not all are 0.
fn is_id(id: &[u8], length: usize) -> bool {
    id.len() == length && id.iter().any(|byte| *byte != 0)
}
