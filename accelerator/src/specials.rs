//! Finds the ends of pieces of strings.

/// Returns a bit for each byte that ends a piece of a string: a quote, a backslash or a control character.
///
/// Finding them all at once is the cheapest way to find the ends of strings: there are no branches
/// to mispredict, and the compiler uses vector instructions.
pub fn find_specials(text: &[u8]) -> Vec<u64> {
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
