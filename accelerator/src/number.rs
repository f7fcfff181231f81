//! Numbers of JSON.

/// Numbers below 10 to the power of this are in the range of 64-bit floating point.
const SAFE_EXPONENT: u64 = 308;

/// Returns the length of the number at the start of a text (RFC 8259, section 6). `None` if there
/// is none, or if 64-bit floating point might not represent it.
#[inline]
pub fn number_length(text: &[u8]) -> Option<usize> {
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
pub fn parse_integer(text: &[u8]) -> Option<i64> {
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
    if digits.len() < text.len() {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}
