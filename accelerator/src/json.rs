//! A scanner of JSON that builds nothing.
//!
//! Every function returns `None` for invalid text, and for valid text that it leaves to Python. The
//! caller then gives up on the whole body.

use crate::number::{number_length, parse_integer};
use crate::specials::find_specials;
use crate::text::{Text, parse_code_unit};

/// Maximum nesting of bodies that are validated here. Python's decoder supports more.
const MAX_DEPTH: u32 = 64;

/// A position in a body, which must be valid UTF-8.
pub struct Cursor<'a> {
    text: &'a [u8],
    /// One bit for each byte, the first byte in the lowest bit; one word longer than needed. See
    /// `find_specials`.
    specials: Vec<u64>,
    at: usize,
    depth: u32,
    /// Number of backslashes so far.
    pub backslashes: usize,
    /// Number of floating point numbers that `loose_double` has passed so far.
    pub doubles: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of the body; `None` if the body is not UTF-8.
    pub fn new(body: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(body).ok()?;
        Some(Cursor {
            text: body,
            specials: find_specials(body),
            at: 0,
            depth: 0,
            backslashes: 0,
            doubles: 0,
        })
    }

    /// Returns the number of bytes before the cursor.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Succeeds if only white space follows.
    pub fn end(&mut self) -> Option<()> {
        self.skip_space();
        (self.at == self.text.len()).then_some(())
    }

    /// Returns the next byte that is not white space, without passing it.
    #[inline(always)]
    pub fn peek(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        if byte > b' ' {
            return Some(byte);
        }
        self.skip_space();
        self.text.get(self.at).copied()
    }

    #[inline(never)]
    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        if !self.text.get(self.at..)?.starts_with(word) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    /// Passes `null` and returns true, or passes nothing and returns false.
    #[inline]
    pub fn null(&mut self) -> Option<bool> {
        if self.peek()? != b'n' {
            return Some(false);
        }
        self.literal(b"null")?;
        Some(true)
    }

    /// Passes `true` or `false`.
    pub fn boolean(&mut self) -> Option<()> {
        match self.peek()? {
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            _ => None,
        }
    }

    /// Passes a string. Each escape of a surrogate must be half of a pair.
    #[inline]
    pub fn string(&mut self) -> Option<Text<'a>> {
        self.expect(b'"')?;
        let begin = self.at;
        let mut has_escapes = false;
        loop {
            match self.find_special()? {
                b'"' => {
                    let raw = self.text.get(begin..self.at)?;
                    self.at += 1;
                    return Some(Text { raw, has_escapes });
                }
                b'\\' => {
                    has_escapes = true;
                    self.escape()?;
                }
                _ => return None,
            }
        }
    }

    /// Moves to the next quote, backslash or control character, and returns it.
    #[inline(always)]
    fn find_special(&mut self) -> Option<u8> {
        loop {
            let (index, shift) = (self.at / 64, self.at % 64);
            // The next 64 bytes, from two words: strings up to that length need no second round.
            let here = *self.specials.get(index)? >> shift;
            let there = *self.specials.get(index + 1)? << 1 << (63 - shift);
            let window = here | there;
            if window != 0 {
                self.at += window.trailing_zeros() as usize;
                return self.text.get(self.at).copied();
            }
            self.at += 64;
        }
    }

    /// Passes an escape, from its backslash.
    fn escape(&mut self) -> Option<()> {
        self.backslashes += 1;
        match *self.text.get(self.at + 1)? {
            b'\\' => self.backslashes += 1,
            b'"' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
            b'u' => return self.unicode_escape(),
            _ => return None,
        }
        self.at += 2;
        Some(())
    }

    fn unicode_escape(&mut self) -> Option<()> {
        match self.code_unit()? {
            0xDC00..=0xDFFF => None,
            0xD800..=0xDBFF => {
                self.backslashes += 1;
                matches!(self.code_unit()?, 0xDC00..=0xDFFF).then_some(())
            }
            _ => Some(()),
        }
    }

    /// Passes `\uXXXX`.
    fn code_unit(&mut self) -> Option<u16> {
        let escape = self.text.get(self.at..self.at + 6)?;
        let unit = parse_code_unit(escape.strip_prefix(b"\\u")?)?;
        self.at += 6;
        Some(unit)
    }

    /// Passes a number that 64-bit floating point can represent, and returns its text.
    pub fn number(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let rest = self.text.get(self.at..)?;
        let number = rest.get(..number_length(rest)?)?;
        self.at += number.len();
        Some(number)
    }

    /// Passes an integer within these limits, without a fraction or an exponent.
    pub fn integer(&mut self, least: i64, greatest: i64) -> Option<i64> {
        let value = parse_integer(self.number()?)?;
        (least..=greatest).contains(&value).then_some(value)
    }

    /// Passes an integer within these limits, as a number or as a string.
    pub fn loose_integer(&mut self, least: i64, greatest: i64) -> Option<i64> {
        if self.peek()? != b'"' {
            return self.integer(least, greatest);
        }
        let value = parse_integer(self.string()?.plain()?)?;
        (least..=greatest).contains(&value).then_some(value)
    }

    /// Passes a 64-bit floating point number, as a number or as a string.
    pub fn loose_double(&mut self) -> Option<()> {
        self.doubles += 1;
        if self.peek()? != b'"' {
            return self.number().map(|_| ());
        }
        let text = self.string()?.plain()?;
        let is_special = matches!(text, b"NaN" | b"Infinity" | b"-Infinity");
        (is_special || number_length(text)? == text.len()).then_some(())
    }

    /// Passes an object; calls `member` at each value, with the name of the member. Gives up on a name with escapes.
    #[inline(always)]
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        self.enter()?;
        if self.peek()? == b'}' {
            self.at += 1;
        } else {
            loop {
                let name = self.plain_name()?;
                member(self, name)?;
                match self.peek()? {
                    b',' => self.at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
            self.at += 1;
        }
        self.depth -= 1;
        Some(())
    }

    /// Passes an array; calls `item` at each value. Returns the number of items.
    #[inline]
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<usize> {
        self.expect(b'[')?;
        self.enter()?;
        let mut count = 0;
        if self.peek()? == b']' {
            self.at += 1;
        } else {
            loop {
                item(self)?;
                count += 1;
                match self.peek()? {
                    b',' => self.at += 1,
                    b']' => break,
                    _ => return None,
                }
            }
            self.at += 1;
        }
        self.depth -= 1;
        Some(count)
    }

    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    /// Passes an object with any members.
    pub fn any_object(&mut self) -> Option<()> {
        if self.peek()? != b'{' {
            return None;
        }
        self.any_value()
    }

    /// Passes any value.
    pub fn any_value(&mut self) -> Option<()> {
        // One bit for each level: 1 for an object, 0 for an array.
        let mut objects: u64 = 0;
        let mut levels: u32 = 0;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                opening @ (b'{' | b'[') => {
                    let is_object = opening == b'{';
                    self.at += 1;
                    if self.peek()? == if is_object { b'}' } else { b']' } {
                        self.at += 1;
                    } else {
                        levels += 1;
                        if self.depth + levels > MAX_DEPTH {
                            return None;
                        }
                        objects = objects << 1 | u64::from(is_object);
                        if is_object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => {
                    self.number()?;
                }
            }
            loop {
                if levels == 0 {
                    return Some(());
                }
                match (self.peek()?, objects & 1) {
                    (b',', is_object) => {
                        self.at += 1;
                        if is_object == 1 {
                            self.name()?;
                        }
                        break;
                    }
                    (b'}', 1) | (b']', 0) => {
                        self.at += 1;
                        levels -= 1;
                        objects >>= 1;
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Passes the name of a member and its colon. Gives up on escapes.
    #[inline(always)]
    fn plain_name(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let begin = self.at;
        if self.find_special()? != b'"' {
            return None;
        }
        let name = self.text.get(begin..self.at)?;
        self.at += 1;
        self.expect(b':')?;
        Some(name)
    }

    fn name(&mut self) -> Option<()> {
        self.string()?;
        self.expect(b':')
    }
}
