//! `ExportMetricsServiceRequest`, with all five kinds of metrics.

use super::values::{
    array, attributes, boolean, double, int32, integer, object, optional_object, skip_unknown,
    text, uint32, unsigned,
};
use super::{FRAME_BYTES, Levels, encoded_bytes, validate_request};
use crate::json::Cursor;
use crate::measure::Measure;
use crate::seen::Seen;

const LEVELS: Levels = Levels {
    resources: b"resourceMetrics",
    scopes: b"scopeMetrics",
    records: b"metrics",
};
/// The flag of a point that intentionally has no value.
const NO_RECORDED_VALUE: i64 = 1;

/// Validates a data point of one kind.
type ValidatePoint = fn(&mut Cursor, &mut Measure) -> Option<()>;

/// Measures a request whose data points are all valid.
pub fn validate_metrics(body: &[u8], max_records: u64) -> Option<Measure> {
    validate_request(body, &LEVELS, |cursor, measure| {
        validate_metric(cursor, measure, max_records)
    })
}

fn validate_metric(cursor: &mut Cursor, measure: &mut Measure, max_records: u64) -> Option<()> {
    let first = measure.records;
    let mut bytes = FRAME_BYTES;
    let mut seen = Seen::default();
    object(cursor, |cursor, name| {
        let (bit, validate_point): (u32, ValidatePoint) = match name {
            b"name" | b"description" | b"unit" => {
                seen.once(u32::from(name[0] - b'a'))?;
                bytes += encoded_bytes(cursor, text)?;
                return Some(());
            }
            b"gauge" => (26, validate_number_point),
            b"sum" => (27, validate_number_point),
            b"histogram" => (28, validate_histogram_point),
            b"exponentialHistogram" => (29, validate_exponential_point),
            b"summary" => (30, validate_summary_point),
            _ => return skip_unknown(cursor, name),
        };
        seen.once(bit)?;
        validate_data(cursor, name, |cursor| {
            validate_point(cursor, measure)?;
            measure.add_record(max_records)
        })
    })?;
    measure.add_shared(first, bytes);
    Some(())
}

/// Validates the data of a metric of this kind.
fn validate_data(
    cursor: &mut Cursor,
    kind: &[u8],
    mut point: impl FnMut(&mut Cursor) -> Option<()>,
) -> Option<()> {
    let mut seen = Seen::default();
    optional_object(cursor, |cursor, name| match name {
        b"dataPoints" => {
            seen.once(0)?;
            array(cursor, &mut point).map(|_| ())
        }
        b"aggregationTemporality" if kind != b"gauge" && kind != b"summary" => {
            seen.once(1)?;
            int32(cursor)
        }
        b"isMonotonic" if kind == b"sum" => {
            seen.once(2)?;
            boolean(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}

/// The members that are common to the points of all kinds.
#[derive(Default)]
struct Point {
    seen: Seen,
    time: i64,
    flags: i64,
}

impl Point {
    fn member(&mut self, cursor: &mut Cursor, name: &[u8]) -> Option<()> {
        match name {
            b"attributes" => {
                self.seen.once(0)?;
                attributes(cursor)
            }
            b"startTimeUnixNano" => {
                self.seen.once(1)?;
                unsigned(cursor).map(|_| ())
            }
            b"timeUnixNano" => {
                self.seen.once(2)?;
                self.time = unsigned(cursor)?;
                Some(())
            }
            b"flags" => {
                self.seen.once(3)?;
                self.flags = uint32(cursor)?;
                Some(())
            }
            _ => skip_unknown(cursor, name),
        }
    }
}

fn validate_number_point(cursor: &mut Cursor, measure: &mut Measure) -> Option<()> {
    let mut point = Point::default();
    let mut has_value = false;
    object(cursor, |cursor, name| match name {
        b"asDouble" => {
            point.seen.once(4)?;
            has_value |= double(cursor)?;
            Some(())
        }
        b"asInt" => {
            point.seen.once(5)?;
            has_value |= integer(cursor, i64::MIN, i64::MAX)?.is_some();
            Some(())
        }
        b"exemplars" => {
            point.seen.once(6)?;
            validate_exemplars(cursor, measure)
        }
        _ => point.member(cursor, name),
    })?;
    let has_value = has_value || point.flags & NO_RECORDED_VALUE != 0;
    (point.time > 0 && has_value).then_some(())
}

fn validate_histogram_point(cursor: &mut Cursor, measure: &mut Measure) -> Option<()> {
    let mut point = Point::default();
    object(cursor, |cursor, name| match name {
        b"count" => {
            point.seen.once(4)?;
            unsigned(cursor).map(|_| ())
        }
        b"sum" => {
            point.seen.once(5)?;
            double(cursor).map(|_| ())
        }
        b"min" => {
            point.seen.once(6)?;
            double(cursor).map(|_| ())
        }
        b"max" => {
            point.seen.once(7)?;
            double(cursor).map(|_| ())
        }
        b"bucketCounts" => {
            point.seen.once(8)?;
            validate_counts(cursor)
        }
        b"explicitBounds" => {
            point.seen.once(9)?;
            measure.numbers += array(cursor, Cursor::loose_double)? as u64;
            Some(())
        }
        b"exemplars" => {
            point.seen.once(10)?;
            validate_exemplars(cursor, measure)
        }
        _ => point.member(cursor, name),
    })?;
    (point.time > 0).then_some(())
}

fn validate_exponential_point(cursor: &mut Cursor, measure: &mut Measure) -> Option<()> {
    let mut point = Point::default();
    object(cursor, |cursor, name| match name {
        b"count" => {
            point.seen.once(4)?;
            unsigned(cursor).map(|_| ())
        }
        b"zeroCount" => {
            point.seen.once(5)?;
            unsigned(cursor).map(|_| ())
        }
        b"scale" => {
            point.seen.once(6)?;
            int32(cursor)
        }
        b"sum" => {
            point.seen.once(7)?;
            double(cursor).map(|_| ())
        }
        b"min" => {
            point.seen.once(8)?;
            double(cursor).map(|_| ())
        }
        b"max" => {
            point.seen.once(9)?;
            double(cursor).map(|_| ())
        }
        b"zeroThreshold" => {
            point.seen.once(10)?;
            double(cursor).map(|_| ())
        }
        b"positive" => {
            point.seen.once(11)?;
            validate_buckets(cursor)
        }
        b"negative" => {
            point.seen.once(12)?;
            validate_buckets(cursor)
        }
        b"exemplars" => {
            point.seen.once(13)?;
            validate_exemplars(cursor, measure)
        }
        _ => point.member(cursor, name),
    })?;
    (point.time > 0).then_some(())
}

fn validate_summary_point(cursor: &mut Cursor, measure: &mut Measure) -> Option<()> {
    let mut point = Point::default();
    object(cursor, |cursor, name| match name {
        b"count" => {
            point.seen.once(4)?;
            unsigned(cursor).map(|_| ())
        }
        b"sum" => {
            point.seen.once(5)?;
            double(cursor).map(|_| ())
        }
        b"quantileValues" => {
            point.seen.once(6)?;
            measure.numbers += 2 * array(cursor, validate_quantile)? as u64;
            Some(())
        }
        _ => point.member(cursor, name),
    })?;
    (point.time > 0).then_some(())
}

fn validate_counts(cursor: &mut Cursor) -> Option<()> {
    array(cursor, |cursor| {
        cursor.loose_integer(0, i64::MAX).map(|_| ())
    })
    .map(|_| ())
}

fn validate_buckets(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    optional_object(cursor, |cursor, name| match name {
        b"offset" => {
            seen.once(0)?;
            int32(cursor)
        }
        b"bucketCounts" => {
            seen.once(1)?;
            validate_counts(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}

fn validate_quantile(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"quantile" => {
            seen.once(0)?;
            double(cursor).map(|_| ())
        }
        b"value" => {
            seen.once(1)?;
            double(cursor).map(|_| ())
        }
        _ => skip_unknown(cursor, name),
    })
}

fn validate_exemplars(cursor: &mut Cursor, measure: &mut Measure) -> Option<()> {
    measure.children += array(cursor, validate_exemplar)? as u64;
    Some(())
}

fn validate_exemplar(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"filteredAttributes" => {
            seen.once(0)?;
            attributes(cursor)
        }
        b"timeUnixNano" => {
            seen.once(1)?;
            unsigned(cursor).map(|_| ())
        }
        b"asDouble" => {
            seen.once(2)?;
            double(cursor).map(|_| ())
        }
        b"asInt" => {
            seen.once(3)?;
            integer(cursor, i64::MIN, i64::MAX).map(|_| ())
        }
        b"spanId" => {
            seen.once(4)?;
            text(cursor)
        }
        b"traceId" => {
            seen.once(5)?;
            text(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}
