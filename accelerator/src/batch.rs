//! Batches of events: the body of `POST /v1/ingest`.

use std::borrow::Cow;

use crate::json::Cursor;
use crate::seen::Seen;
use crate::timestamp::is_date_time;

const MAX_ID_CHARACTERS: usize = 100;

/// A valid batch.
pub struct Batch<'a> {
    pub id: Cow<'a, str>,
    pub events: usize,
}

/// Returns the batch in a body that is valid without repairs, with at most `max_events` events of
/// at most `event_bytes`.
pub fn validate_batch(body: &[u8], event_bytes: usize, max_events: usize) -> Option<Batch<'_>> {
    let mut cursor = Cursor::new(body)?;
    let mut seen = Seen::default();
    let mut id = Cow::Borrowed("");
    let mut events = 0;
    cursor.object(|cursor, name| match name {
        b"batch_id" => {
            seen.once(0)?;
            id = cursor.string()?.decode()?;
            Some(())
        }
        b"events" => {
            seen.once(1)?;
            let mut left = max_events;
            events = cursor.array(|cursor| {
                left = left.checked_sub(1)?;
                validate_event(cursor, event_bytes)
            })?;
            Some(())
        }
        _ => cursor.any_value(),
    })?;
    cursor.end()?;
    let characters = if id.len() <= MAX_ID_CHARACTERS {
        id.len()
    } else {
        id.chars().count()
    };
    // A body without one of them has an empty ID, or no event.
    (events > 0 && (1..=MAX_ID_CHARACTERS).contains(&characters)).then_some(Batch { id, events })
}

fn validate_event(cursor: &mut Cursor, event_bytes: usize) -> Option<()> {
    cursor.peek()?;
    let begin = cursor.position();
    let mut seen = Seen::default();
    cursor.object(|cursor, name| validate_member(cursor, name, &mut seen))?;
    (seen.contains(TYPE) && cursor.position() - begin <= event_bytes).then_some(())
}

const TYPE: u32 = 0;

fn validate_member(cursor: &mut Cursor, name: &[u8], seen: &mut Seen) -> Option<()> {
    let (bit, kind) = match name {
        b"type" => (TYPE, Kind::Type),
        b"id" => (1, Kind::Text),
        b"severity" => (2, Kind::Severity),
        b"name" => (3, Kind::Text),
        b"title" => (4, Kind::Text),
        b"timestamp" => (5, Kind::Time),
        b"trace_id" => (6, Kind::Text),
        b"span_id" => (7, Kind::Text),
        b"parent_span_id" => (8, Kind::Text),
        b"route" => (9, Kind::Text),
        b"url" => (10, Kind::Text),
        b"service" => (11, Kind::Text),
        b"status_code" => (12, Kind::Integer),
        b"duration_ms" => (13, Kind::Number),
        b"fingerprint" => (14, Kind::Text),
        b"affected_users" => (15, Kind::Integer),
        b"details" => (16, Kind::Text),
        b"attributes" => (17, Kind::Object),
        b"payload" => (18, Kind::Object),
        _ => return cursor.any_value(),
    };
    seen.once(bit)?;
    if kind != Kind::Type && cursor.null()? {
        return Some(());
    }
    match kind {
        Kind::Text => cursor.string().map(|_| ()),
        Kind::Object => cursor.any_object(),
        Kind::Number => cursor.number().map(|_| ()),
        Kind::Integer => cursor.integer(i64::MIN, i64::MAX).map(|_| ()),
        Kind::Time => is_date_time(cursor.string()?.plain()?).then_some(()),
        Kind::Type => matches!(
            cursor.string()?.plain()?,
            b"request" | b"query" | b"job" | b"exception" | b"log" | b"metric"
        )
        .then_some(()),
        Kind::Severity => matches!(
            cursor.string()?.plain()?,
            b"debug" | b"info" | b"warning" | b"error" | b"critical"
        )
        .then_some(()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Type,
    Severity,
    Text,
    Time,
    Integer,
    Number,
    Object,
}
