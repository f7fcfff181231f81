//! Members of OTLP's types: `null` is the same as absent, and integers may be strings.

use crate::json::Cursor;
use crate::seen::Seen;

pub const MAX_UINT32: i64 = u32::MAX as i64;

/// Passes an object; calls `member` at each value.
pub fn object<'a>(
    cursor: &mut Cursor<'a>,
    member: impl FnMut(&mut Cursor<'a>, &'a [u8]) -> Option<()>,
) -> Option<()> {
    cursor.object(member)
}

/// Passes an object or `null`.
pub fn optional_object<'a>(
    cursor: &mut Cursor<'a>,
    member: impl FnMut(&mut Cursor<'a>, &'a [u8]) -> Option<()>,
) -> Option<()> {
    if cursor.null()? {
        return Some(());
    }
    cursor.object(member)
}

/// Passes an array or `null`. Returns the number of items.
pub fn array<'a>(
    cursor: &mut Cursor<'a>,
    item: impl FnMut(&mut Cursor<'a>) -> Option<()>,
) -> Option<usize> {
    if cursor.null()? {
        return Some(0);
    }
    cursor.array(item)
}

/// Passes a member with a name that OTLP does not define. Gives up on snake_case names, which
/// Python renames.
pub fn skip_unknown(cursor: &mut Cursor, name: &[u8]) -> Option<()> {
    if name.contains(&b'_') {
        return None;
    }
    cursor.any_value()
}

/// Passes a string or `null`.
pub fn text(cursor: &mut Cursor) -> Option<()> {
    if cursor.null()? {
        return Some(());
    }
    cursor.string().map(|_| ())
}

/// Passes an integer within these limits, or `null`, for which it returns `Some(None)`.
pub fn integer(cursor: &mut Cursor, least: i64, greatest: i64) -> Option<Option<i64>> {
    if cursor.null()? {
        return Some(None);
    }
    cursor.loose_integer(least, greatest).map(Some)
}

/// Passes an integer of 32 bits, or `null`.
pub fn int32(cursor: &mut Cursor) -> Option<()> {
    integer(cursor, i32::MIN.into(), i32::MAX.into()).map(|_| ())
}

/// Passes an unsigned integer of 32 bits. Returns 0 for `null`.
pub fn uint32(cursor: &mut Cursor) -> Option<i64> {
    integer(cursor, 0, MAX_UINT32).map(Option::unwrap_or_default)
}

/// Passes a count or a time, which are not negative. Returns 0 for `null`.
pub fn unsigned(cursor: &mut Cursor) -> Option<i64> {
    integer(cursor, 0, i64::MAX).map(Option::unwrap_or_default)
}

/// Passes a floating point number or `null`. Returns true for a number.
pub fn double(cursor: &mut Cursor) -> Option<bool> {
    if cursor.null()? {
        return Some(false);
    }
    cursor.loose_double()?;
    Some(true)
}

/// Passes `true`, `false` or `null`.
pub fn boolean(cursor: &mut Cursor) -> Option<()> {
    if cursor.null()? {
        return Some(());
    }
    cursor.boolean()
}

/// Passes a list of attributes or `null`.
pub fn attributes(cursor: &mut Cursor) -> Option<()> {
    array(cursor, key_value).map(|_| ())
}

fn key_value(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"key" => {
            seen.once(0)?;
            cursor.string().map(|_| ())
        }
        b"value" => {
            seen.once(1)?;
            any_value(cursor)
        }
        _ => skip_unknown(cursor, name),
    })
}

/// Passes an `AnyValue` or `null`. Gives up on unknown members, which Python removes.
pub fn any_value(cursor: &mut Cursor) -> Option<()> {
    if cursor.null()? {
        return Some(());
    }
    validate_any_value(cursor)
}

fn validate_any_value(cursor: &mut Cursor) -> Option<()> {
    let mut seen = Seen::default();
    object(cursor, |cursor, name| match name {
        b"stringValue" => {
            seen.once(0)?;
            text(cursor)
        }
        b"intValue" => {
            seen.once(1)?;
            integer(cursor, i64::MIN, i64::MAX).map(|_| ())
        }
        b"doubleValue" => {
            seen.once(2)?;
            double(cursor).map(|_| ())
        }
        b"boolValue" => {
            seen.once(3)?;
            boolean(cursor)
        }
        b"arrayValue" => {
            seen.once(4)?;
            values(cursor, validate_any_value)
        }
        b"kvlistValue" => {
            seen.once(5)?;
            values(cursor, key_value)
        }
        b"bytesValue" => {
            seen.once(6)?;
            base64(cursor)
        }
        _ => None,
    })
}

/// Passes an object with a list `values`, or `null`.
fn values(cursor: &mut Cursor, item: fn(&mut Cursor) -> Option<()>) -> Option<()> {
    let mut seen = Seen::default();
    optional_object(cursor, |cursor, name| match name {
        b"values" => {
            seen.once(0)?;
            array(cursor, item).map(|_| ())
        }
        _ => skip_unknown(cursor, name),
    })
}

/// Passes base64 of the standard alphabet with padding, or `null`. Python repairs other forms.
fn base64(cursor: &mut Cursor) -> Option<()> {
    if cursor.null()? {
        return Some(());
    }
    let encoded = cursor.string()?.plain()?;
    let mut data = encoded;
    for _ in 0..2 {
        data = data.strip_suffix(b"=").unwrap_or(data);
    }
    let is_data = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    (encoded.len().is_multiple_of(4) && data.iter().all(is_data)).then_some(())
}

/// Passes an ID of this many hexadecimal digits, not all 0.
pub fn hex_id<const DIGITS: usize>(cursor: &mut Cursor) -> Option<()> {
    let id: &[u8; DIGITS] = cursor.string()?.plain()?.try_into().ok()?;
    let (mut is_hex, mut bits) = (true, 0);
    // No early exit, so that the compiler can use vector instructions.
    for digit in id {
        is_hex &= digit.is_ascii_hexdigit();
        bits |= digit ^ b'0';
    }
    (is_hex && bits != 0).then_some(())
}
