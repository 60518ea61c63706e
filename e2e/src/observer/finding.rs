//! A finding: one violation that the observer saw, with the object, the numbers and the time.

use k8s_openapi::jiff::Timestamp;

/// One violation of one of the eleven checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The number of the check, 1 to 11. It is 0 when the observer itself could not see; this must fail a case, too, because then no
    /// finding proves nothing.
    pub check: u8,
    /// The object, as `kind namespace/name`.
    pub object: String,
    /// What is wrong, with the amounts.
    pub detail: String,
    /// The time in milliseconds of the Unix epoch: when the state was wrong, or when its grace ended.
    pub at: i64,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = Timestamp::from_millisecond(self.at).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(out, "check {} at {at}: {}: {}", self.check, self.object, self.detail)
    }
}
