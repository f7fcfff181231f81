//! Detects repetitions of members of an object, or of fields of a message, that may occur only
//! once.

/// The members seen so far, as bits.
#[derive(Default)]
pub struct Seen(u32);

impl Seen {
    /// Records a member. Gives up if it is repeated.
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
