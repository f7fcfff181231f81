//! `ExportMetricsServiceRequest`, with all five kinds of metrics.

use super::values::{key_value, text_bytes};
use super::wire::{Value, each_field, packed_fixed64, packed_varints, skip_unknown};
use super::{EMPTY_TEXTS, Limits, validate_request};
use crate::measure::Measure;
use crate::seen::Seen;

/// The flag of a point that intentionally has no value.
const NO_RECORDED_VALUE: u64 = 1;

/// Validates a data point of one kind.
type ValidatePoint = fn(&[u8], &mut Measure) -> Option<()>;

/// Measures a request whose data points are all valid.
pub fn validate_metrics(body: &[u8], limits: Limits) -> Option<Measure> {
    validate_request(body, limits.groups, |metric, measure| {
        validate_metric(metric, measure, limits.records)
    })
}

fn validate_metric(message: &[u8], measure: &mut Measure, max_records: u64) -> Option<()> {
    let first = measure.records;
    let mut bytes = EMPTY_TEXTS;
    let mut seen = Seen::default();
    each_field(message, |number, value| {
        let (data, validate_point): (&[u8], ValidatePoint) = match (number, value) {
            (1..=3, Value::Bytes(string)) => {
                bytes += text_bytes(string)?;
                return Some(());
            }
            (12, Value::Bytes(attribute)) => return key_value(attribute),
            (5 | 7, Value::Bytes(data)) => (data, validate_number_point),
            (9, Value::Bytes(data)) => (data, validate_histogram_point),
            (10, Value::Bytes(data)) => (data, validate_exponential_point),
            (11, Value::Bytes(data)) => (data, validate_summary_point),
            _ => return skip_unknown(number, 12),
        };
        // One of several fields of a oneof: a parser keeps the last one.
        seen.once(0)?;
        validate_data(data, |point| {
            validate_point(point, measure)?;
            measure.add_record(max_records)
        })
    })?;
    measure.add_shared(first, bytes);
    Some(())
}

/// Validates the data of a metric: `aggregation_temporality` and `is_monotonic` have the same numbers in all kinds.
fn validate_data(message: &[u8], mut point: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
    each_field(message, |number, value| match (number, value) {
        (1, Value::Bytes(message)) => point(message),
        (2 | 3, Value::Varint(_)) => Some(()),
        _ => skip_unknown(number, 3),
    })
}

fn validate_number_point(message: &[u8], measure: &mut Measure) -> Option<()> {
    let (mut time, mut flags, mut has_value) = (0, 0, false);
    each_field(message, |number, value| {
        match (number, value) {
            (2, Value::Fixed64(_)) => {}
            (3, Value::Fixed64(nanoseconds)) => time = nanoseconds,
            (4 | 6, Value::Fixed64(_)) => has_value = true,
            (5, Value::Bytes(exemplar)) => validate_exemplar(exemplar, measure)?,
            (7, Value::Bytes(attribute)) => key_value(attribute)?,
            (8, Value::Varint(bits)) => flags = bits,
            _ => skip_unknown(number, 8)?,
        }
        Some(())
    })?;
    (time != 0 && (has_value || flags & NO_RECORDED_VALUE != 0)).then_some(())
}

fn validate_histogram_point(message: &[u8], measure: &mut Measure) -> Option<()> {
    let mut time = 0;
    each_field(message, |number, value| {
        match (number, value) {
            (3, Value::Fixed64(nanoseconds)) => time = nanoseconds,
            (2 | 4..=7 | 11 | 12, Value::Fixed64(_)) | (10, Value::Varint(_)) => {}
            (6 | 7, Value::Bytes(list)) => packed_fixed64(list)?,
            (8, Value::Bytes(exemplar)) => validate_exemplar(exemplar, measure)?,
            (9, Value::Bytes(attribute)) => key_value(attribute)?,
            _ => skip_unknown(number, 12)?,
        }
        Some(())
    })?;
    (time != 0).then_some(())
}

fn validate_exponential_point(message: &[u8], measure: &mut Measure) -> Option<()> {
    let mut time = 0;
    let mut seen = Seen::default();
    each_field(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(attribute)) => key_value(attribute)?,
            (3, Value::Fixed64(nanoseconds)) => time = nanoseconds,
            (2 | 4 | 5 | 7 | 12..=14, Value::Fixed64(_)) | (6 | 10, Value::Varint(_)) => {}
            (8 | 9, Value::Bytes(buckets)) => {
                seen.once(number as u32)?;
                validate_buckets(buckets)?;
            }
            (11, Value::Bytes(exemplar)) => validate_exemplar(exemplar, measure)?,
            _ => skip_unknown(number, 14)?,
        }
        Some(())
    })?;
    (time != 0).then_some(())
}

fn validate_buckets(message: &[u8]) -> Option<()> {
    each_field(message, |number, value| match (number, value) {
        (1 | 2, Value::Varint(_)) => Some(()),
        (2, Value::Bytes(list)) => packed_varints(list),
        _ => skip_unknown(number, 2),
    })
}

fn validate_summary_point(message: &[u8], _measure: &mut Measure) -> Option<()> {
    let mut time = 0;
    each_field(message, |number, value| {
        match (number, value) {
            (3, Value::Fixed64(nanoseconds)) => time = nanoseconds,
            (2 | 4 | 5, Value::Fixed64(_)) | (8, Value::Varint(_)) => {}
            (6, Value::Bytes(quantile)) => {
                each_field(quantile, |number, value| match (number, value) {
                    (1 | 2, Value::Fixed64(_)) => Some(()),
                    _ => skip_unknown(number, 2),
                })?;
            }
            (7, Value::Bytes(attribute)) => key_value(attribute)?,
            _ => skip_unknown(number, 8)?,
        }
        Some(())
    })?;
    (time != 0).then_some(())
}

fn validate_exemplar(message: &[u8], measure: &mut Measure) -> Option<()> {
    measure.children += 1;
    each_field(message, |number, value| match (number, value) {
        (2 | 3 | 6, Value::Fixed64(_)) | (4 | 5, Value::Bytes(_)) => Some(()),
        (7, Value::Bytes(attribute)) => key_value(attribute),
        _ => skip_unknown(number, 7),
    })
}
