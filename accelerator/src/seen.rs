//! Members of an object, or fields of a message, of which there may be one.

/// Those that were seen, as bits.
#[derive(Default)]
pub struct Seen(u32);

impl Seen {
    /// Notes a member. Gives up on its repetition.
    #[inline]
    pub fn once(&mut self, bit: u32) -> Option<()> {
        let mask = 1 << bit;
        if self.0 & mask != 0 {
            return None;
        }
        self.0 |= mask;
        Some(())
    }

    pub fn contains(&self, bit: u32) -> bool {
        self.0 & 1 << bit != 0
    }
}
