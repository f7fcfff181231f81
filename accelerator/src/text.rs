//! Strings of JSON.

use std::borrow::Cow;

/// A valid string: its bytes between the quotes.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub has_escapes: bool,
}

impl<'a> Text<'a> {
    /// Returns the string if it has no escapes.
    pub fn plain(self) -> Option<&'a [u8]> {
        (!self.has_escapes).then_some(self.raw)
    }

    /// Returns the string with its escapes replaced.
    pub fn decode(self) -> Option<Cow<'a, str>> {
        let text = std::str::from_utf8(self.raw).ok()?;
        if !self.has_escapes {
            return Some(Cow::Borrowed(text));
        }
        let mut decoded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, escape)) = rest.split_once('\\') {
            decoded.push_str(before);
            let (character, length) = decode_escape(escape)?;
            decoded.push(character);
            rest = escape.get(length..)?;
        }
        decoded.push_str(rest);
        Some(Cow::Owned(decoded))
    }
}

/// Returns the character of an escape, given the text after its backslash, and the length of the
/// escape.
fn decode_escape(escape: &str) -> Option<(char, usize)> {
    let character = match escape.bytes().next()? {
        b'b' => '\x08',
        b'f' => '\x0c',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_code_units(escape.as_bytes()),
        itself => char::from(itself),
    };
    Some((character, 1))
}

/// Does the same for `uXXXX`, and for a surrogate pair `uXXXX\uXXXX`.
fn decode_code_units(escape: &[u8]) -> Option<(char, usize)> {
    let first = parse_code_unit(escape.get(1..5)?)?;
    let second = escape.get(7..11).and_then(parse_code_unit);
    let character = char::decode_utf16([first, second.unwrap_or(0)])
        .next()?
        .ok()?;
    let length = if character.len_utf16() == 2 { 11 } else { 5 };
    Some((character, length))
}

/// Returns the number of four hexadecimal digits.
pub fn parse_code_unit(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | digit as u16)
    })
}
