//! A scanner of JSON that builds nothing.
//!
//! Every function returns `None` for text that is not valid, and for valid text that it does not want to judge: the
//! caller then gives up on the whole body.

/// Levels of nesting up to which bodies are judged. A decoder that recurses supports more.
const MAX_DEPTH: u32 = 64;
/// Numbers below 10 to this power are in the range of 64-bit floating point.
const SAFE_EXPONENT: u64 = 300;

/// A string as it stands between its quotes.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub has_escapes: bool,
}

impl<'a> Text<'a> {
    /// Returns the string if it stands in the body as it is, without escapes.
    pub fn plain(self) -> Option<&'a [u8]> {
        (!self.has_escapes).then_some(self.raw)
    }
}

/// A position in a body, which must be valid UTF-8.
pub struct Cursor<'a> {
    text: &'a [u8],
    /// One bit for each byte, the first in the lowest bit; one word more than needed. See `find_specials`.
    specials: Vec<u64>,
    at: usize,
    depth: u32,
    /// Backslashes so far.
    pub backslashes: usize,
    /// Floating point numbers so far, of those that `loose_double` has passed.
    pub doubles: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the begin of the body. `None` if the body is not UTF-8.
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
    #[inline]
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
    #[inline]
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
    fn code_unit(&mut self) -> Option<u32> {
        let escape = self.text.get(self.at..self.at + 6)?;
        let digits = escape.strip_prefix(b"\\u")?;
        let mut unit = 0;
        for digit in digits {
            unit = unit << 4 | (*digit as char).to_digit(16)?;
        }
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

    /// Passes an integer in these limits, without a fraction or an exponent.
    pub fn integer(&mut self, least: i64, greatest: i64) -> Option<i64> {
        let value = parse_integer(self.number()?)?;
        (least..=greatest).contains(&value).then_some(value)
    }

    /// Passes an integer in these limits, as a number or as a string.
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
    #[inline]
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
                let name = self.string()?.plain()?;
                self.expect(b':')?;
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

    fn name(&mut self) -> Option<()> {
        self.string()?;
        self.expect(b':')
    }
}

/// Returns a bit for each byte that ends a piece of a string: a quote, a backslash or a control character.
///
/// Finding them all at once is the cheapest way to find the ends of strings: it has no branches to mispredict, and the
/// compiler makes vector instructions of it.
fn find_specials(text: &[u8]) -> Vec<u64> {
    let (chunks, rest) = text.as_chunks::<64>();
    let mut words = Vec::with_capacity(chunks.len() + 2);
    words.extend(chunks.iter().map(specials_of));
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    words.push(specials_of(&last));
    words.push(0);
    words
}

#[inline]
fn specials_of(chunk: &[u8; 64]) -> u64 {
    let found =
        chunk.map(|byte| u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < b' '));
    let (words, _) = found.as_chunks::<8>();
    words.iter().rev().fold(0, |bits, word| {
        // Moves the lowest bit of each byte into the top byte.
        let packed = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits << 8 | packed
    })
}

/// Returns the length of the number at the begin of a text (RFC 8259, section 6). `None` if there is none, or if
/// 64-bit floating point might not represent it.
#[inline]
fn number_length(text: &[u8]) -> Option<usize> {
    let mut at = usize::from(text.first() == Some(&b'-'));
    let digits = count_digits(text, at);
    if digits == 0 || (digits > 1 && text.get(at) == Some(&b'0')) {
        return None;
    }
    at += digits;
    if text.get(at) == Some(&b'.') {
        let digits = count_digits(text, at + 1);
        if digits == 0 {
            return None;
        }
        at += 1 + digits;
    }
    let mut exponent = 0;
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        let digits = count_digits(text, at);
        if digits == 0 || digits > 3 {
            return None;
        }
        for digit in text.get(at..at + digits)? {
            exponent = exponent * 10 + u64::from(digit - b'0');
        }
        at += digits;
    }
    (digits as u64 + exponent <= SAFE_EXPONENT).then_some(at)
}

#[inline]
fn count_digits(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the 64-bit integer that makes up a whole text.
fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 19 || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    let mut magnitude: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Nineteen digits cannot overflow.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    let value = i64::try_from(magnitude).ok()?;
    Some(if digits.len() < text.len() {
        -value
    } else {
        value
    })
}
