//! Reads fields of protobuf messages without building messages.
//!
//! Functions return `None` for bytes that are not a message, and for cases that a parser treats
//! specially: groups, a known field with another wire type, a repeated message field that must be
//! merged.

/// The value of a field, by its wire type.
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Calls `field` with the number and value of each field of a message.
#[inline]
pub fn each_field<'a>(
    message: &'a [u8],
    mut field: impl FnMut(u64, Value<'a>) -> Option<()>,
) -> Option<()> {
    let mut rest = message;
    while !rest.is_empty() {
        let tag = short_varint(&mut rest)?;
        let number = tag >> 3;
        if number == 0 {
            return None;
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => Value::Fixed64(fixed64(&mut rest)?),
            2 => Value::Bytes(bytes(&mut rest)?),
            5 => {
                fixed32(&mut rest)?;
                Value::Fixed32
            }
            _ => return None,
        };
        field(number, value)?;
    }
    Some(())
}

#[inline]
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let (&first, mut after) = rest.split_first()?;
    let mut number = u64::from(first & 127);
    let (mut last, mut shift) = (first, 0);
    while last & 128 != 0 {
        (last, after) = after.split_first().map(|(byte, after)| (*byte, after))?;
        shift += 7;
        // The tenth byte has one bit of the number.
        if shift > 63 || (shift == 63 && last > 1) {
            return None;
        }
        number |= u64::from(last & 127) << shift;
    }
    *rest = after;
    Some(number)
}

/// Passes a tag or a length: parsers read no more than the five bytes of a number of 32 bits.
#[inline]
fn short_varint(rest: &mut &[u8]) -> Option<u64> {
    let before = rest.len();
    let number = varint(rest)?;
    (before - rest.len() <= 5 && number <= u32::MAX.into()).then_some(number)
}

#[inline]
fn fixed64(rest: &mut &[u8]) -> Option<u64> {
    let (value, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*value))
}

#[inline]
fn fixed32(rest: &mut &[u8]) -> Option<()> {
    *rest = rest.get(4..)?;
    Some(())
}

#[inline]
fn bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(short_varint(rest)?).ok()?;
    let (value, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(value)
}

/// Succeeds for a packed list of varints.
pub fn packed_varints(mut list: &[u8]) -> Option<()> {
    while !list.is_empty() {
        varint(&mut list)?;
    }
    Some(())
}

/// Succeeds for a packed list of numbers of eight bytes.
pub fn packed_fixed64(list: &[u8]) -> Option<()> {
    list.len().is_multiple_of(8).then_some(())
}

/// Succeeds for a string: parsers refuse one that is not UTF-8.
pub fn text(string: &[u8]) -> Option<()> {
    // The check for ASCII is inlined, and five times as fast for short strings.
    (string.is_ascii() || std::str::from_utf8(string).is_ok()).then_some(())
}

/// Validates a field that the message does not define: a number above its highest field number is
/// skipped.
pub fn skip_unknown(number: u64, greatest: u64) -> Option<()> {
    (number > greatest).then_some(())
}
