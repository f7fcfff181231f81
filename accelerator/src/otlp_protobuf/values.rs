//! Attributes, values, resources and scopes, which all signals share.

use super::wire::{Value, each_field, skip_unknown, text};
use crate::seen::Seen;

/// Maximum nesting of values. A parser supports a hundred nested messages, three for each level.
const MAX_LEVELS: u32 = 20;
/// Maximum number of bytes in a row that one byte of a value can become: a re-encoded value is up
/// to twice as long, and JSON writes a byte with up to seven.
const VALUE_BYTES: usize = 14;

/// Returns an upper bound of the bytes of a string in a row.
pub fn text_bytes(string: &[u8]) -> Option<usize> {
    text(string)?;
    let is_escaped = |byte: &&u8| matches!(**byte, 0..=31 | b'"' | b'\\');
    Some(string.len() + 4 + 5 * string.iter().filter(is_escaped).count())
}

/// Validates a `KeyValue`.
pub fn key_value(message: &[u8]) -> Option<()> {
    nested_key_value(message, 0)
}

fn nested_key_value(message: &[u8], level: u32) -> Option<()> {
    let mut seen = Seen::default();
    each_field(message, |number, value| match (number, value) {
        (1, Value::Bytes(key)) => text(key),
        (2, Value::Bytes(value)) => {
            seen.once(0)?;
            nested_value(value, level)
        }
        (3, Value::Varint(_)) => Some(()),
        _ => skip_unknown(number, 3),
    })
}

/// Validates an `AnyValue`.
pub fn any_value(message: &[u8]) -> Option<()> {
    nested_value(message, 0)
}

fn nested_value(message: &[u8], level: u32) -> Option<()> {
    if level > MAX_LEVELS {
        return None;
    }
    let mut seen = Seen::default();
    each_field(message, |number, value| {
        if number <= 8 {
            // One of several fields of a oneof: a parser keeps the last one.
            seen.once(0)?;
        }
        match (number, value) {
            (1, Value::Bytes(string)) => text(string),
            (2 | 3 | 8, Value::Varint(_)) | (4, Value::Fixed64(_)) | (7, Value::Bytes(_)) => {
                Some(())
            }
            (5, Value::Bytes(array)) => each_field(array, |number, value| match (number, value) {
                (1, Value::Bytes(item)) => nested_value(item, level + 1),
                _ => skip_unknown(number, 1),
            }),
            (6, Value::Bytes(map)) => each_field(map, |number, value| match (number, value) {
                (1, Value::Bytes(item)) => nested_key_value(item, level + 1),
                _ => skip_unknown(number, 1),
            }),
            _ => skip_unknown(number, 8),
        }
    })
}

/// Validates an attribute, and returns an upper bound of its bytes in a row.
fn attribute_bytes(message: &[u8]) -> Option<usize> {
    key_value(message)?;
    let mut bytes = 0;
    each_field(message, |number, value| {
        if let (1, Value::Bytes(key)) = (number, &value) {
            bytes += text_bytes(key)?;
        }
        if let (2, Value::Bytes(value)) = (number, value) {
            bytes += VALUE_BYTES * value.len();
            each_field(value, |number, value| {
                if let (1, Value::Bytes(string)) = (number, value) {
                    bytes += text_bytes(string)?;
                }
                Some(())
            })?;
        }
        Some(())
    })?;
    Some(bytes)
}

/// Validates a `Resource`, and returns an upper bound of its bytes in a row.
pub fn resource_bytes(message: &[u8]) -> Option<usize> {
    let mut bytes = 0;
    each_field(message, |number, value| match (number, value) {
        (1, Value::Bytes(attribute)) => {
            bytes += attribute_bytes(attribute)?;
            Some(())
        }
        (2, Value::Varint(_)) => Some(()),
        (3, Value::Bytes(entity)) => each_field(entity, |number, value| match (number, value) {
            (1..=4, Value::Bytes(string)) => text(string),
            _ => skip_unknown(number, 4),
        }),
        _ => skip_unknown(number, 3),
    })?;
    Some(bytes)
}

/// Validates an `InstrumentationScope`, and returns an upper bound of its bytes in a row.
pub fn scope_bytes(message: &[u8]) -> Option<usize> {
    let mut bytes = 0;
    each_field(message, |number, value| match (number, value) {
        (1 | 2, Value::Bytes(string)) => {
            bytes += text_bytes(string)?;
            Some(())
        }
        (3, Value::Bytes(attribute)) => {
            bytes += attribute_bytes(attribute)?;
            Some(())
        }
        (4, Value::Varint(_)) => Some(()),
        _ => skip_unknown(number, 4),
    })?;
    Some(bytes)
}
