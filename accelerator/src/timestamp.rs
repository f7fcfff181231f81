//! Times in RFC 3339 format.

/// Years up to which rounding a fraction cannot leave the calendar.
const MAX_YEAR: u32 = 9998;
const MAX_FRACTION_DIGITS: usize = 9;

/// Returns true for an existing time with a time zone, like `2026-01-31T12:00:00.000Z`. Also
/// returns false for leap seconds and fractions of more than nine digits, which are left to Python.
pub fn is_date_time(text: &[u8]) -> bool {
    check(text).is_some()
}

fn check(text: &[u8]) -> Option<()> {
    let (date_time, rest) = text.split_first_chunk::<19>()?;
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        mo1,
        mo2,
        b'-',
        d1,
        d2,
        b'T' | b't' | b' ',
        h1,
        h2,
        b':',
        mi1,
        mi2,
        b':',
        s1,
        s2,
    ] = *date_time
    else {
        return None;
    };
    let year = pair(y1, y2)? * 100 + pair(y3, y4)?;
    let (month, day) = (pair(mo1, mo2)?, pair(d1, d2)?);
    if !(1..=MAX_YEAR).contains(&year) || day == 0 || day > days_of(month, year)? {
        return None;
    }
    if pair(h1, h2)? > 23 || pair(mi1, mi2)? > 59 || pair(s1, s2)? > 59 {
        return None;
    }
    check_zone(skip_fraction(rest)?)
}

fn skip_fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = rest.strip_prefix(b".") else {
        return Some(rest);
    };
    let digits = fraction
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 || digits > MAX_FRACTION_DIGITS {
        return None;
    }
    fraction.get(digits..)
}

fn check_zone(zone: &[u8]) -> Option<()> {
    match *zone {
        [b'Z' | b'z'] => Some(()),
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            (pair(h1, h2)? <= 23 && pair(m1, m2)? <= 59).then_some(())
        }
        _ => None,
    }
}

fn pair(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then_some(u32::from(tens) * 10 + u32::from(ones))
}

fn days_of(month: u32, year: u32) -> Option<u32> {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            Some(29)
        }
        2 => Some(28),
        _ => None,
    }
}
