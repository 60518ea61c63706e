//! What is a finding? One fault that the observer saw, in words that name the object, the numbers and the moment.

use k8s_openapi::jiff::Timestamp;

/// One fault against one of the eight checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The number of the check in the scenarios, 1 to 8; 0 when the observer itself could not see (which must fail a case too: silence proves nothing then).
    pub check: u8,
    /// The object at fault, as `kind namespace/name`.
    pub object: String,
    /// What is wrong, with the amounts.
    pub detail: String,
    /// Milliseconds of the Unix epoch: when it was wrong, or when a grace ran out.
    pub at: i64,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = Timestamp::from_millisecond(self.at).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(out, "check {} at {at}: {}: {}", self.check, self.object, self.detail)
    }
}
