//! The measurements of a valid OTLP request that the edge needs.

/// Counts, and upper bounds of the bytes that the rows of the records repeat. With them, the edge
/// limits the size of all rows.
#[derive(Default)]
pub struct Measure {
    /// Spans, log records or data points.
    pub records: u64,
    /// Bytes of resources, scopes and descriptions of metrics, counted once for each of their
    /// records.
    pub shared_bytes: u64,
    /// Events and links of spans, exemplars of data points.
    pub children: u64,
    /// Bounds of histograms, and the numbers of quantiles.
    pub numbers: u64,
}

impl Measure {
    /// Counts a record. Gives up if there are more than `limit` records.
    pub fn add_record(&mut self, limit: u64) -> Option<()> {
        self.records += 1;
        (self.records <= limit).then_some(())
    }

    /// Adds the bytes that the records since `first` repeat.
    pub fn add_shared(&mut self, first: u64, bytes: usize) {
        let repeated = (self.records - first).saturating_mul(bytes as u64);
        self.shared_bytes = self.shared_bytes.saturating_add(repeated);
    }
}
