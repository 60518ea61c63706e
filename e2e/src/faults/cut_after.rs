//! After how many writes does the API server hear nothing more of a program? It is the state that a SIGKILL at that request leaves behind.

use super::request::ApiRequest;

/// Resources of which a write decides nothing, and comes at any time.
const UNCOUNTED: [&str; 2] = ["events", "leases"];

/// Lets a number of writes through. The next one and every request after it is cut.
#[derive(Debug, Default)]
pub(super) struct CutAfter {
    /// The writes that still pass; `None`: the cut is not set.
    left: Option<u32>,
    passed: u32,
    blown: bool,
}

impl CutAfter {
    /// Sets it for this many writes.
    pub(super) fn set(&mut self, writes: u32) {
        *self = Self { left: Some(writes), ..Self::default() };
    }

    /// Returns whether a request was cut.
    pub(super) fn is_blown(&self) -> bool {
        self.blown
    }

    /// Takes it out: all requests pass. Returns how many writes passed since it was set.
    pub(super) fn take_out(&mut self) -> u32 {
        std::mem::take(self).passed
    }

    /// Returns whether this request is cut.
    pub(super) fn cuts(&mut self, request: &ApiRequest) -> bool {
        let Some(left) = self.left else { return false };
        if !self.blown && request.verb.writes() && !UNCOUNTED.contains(&request.resource.as_str()) {
            self.blown = left == 0;
            self.left = Some(left.saturating_sub(1));
            self.passed = self.passed.saturating_add(u32::from(!self.blown));
        }
        self.blown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lets_so_many_writes_through_and_then_nothing() {
        let request = |method: &str, uri: &str| ApiRequest::read(&method.parse().unwrap(), &uri.parse().unwrap());
        let (binding, read) = (request("POST", "/api/v1/namespaces/n/pods/p/binding"), request("GET", "/api/v1/namespaces/n/pods/p"));
        let event = request("POST", "/api/v1/namespaces/n/events");
        let mut cut = CutAfter::default();
        assert!(!cut.cuts(&binding) && cut.take_out() == 0, "it is not set");
        cut.set(1);
        assert_eq!([&read, &event, &binding, &event, &read].map(|request| cut.cuts(request)), [false; 5]);
        assert!(!cut.is_blown());
        assert_eq!([&binding, &read, &event].map(|request| cut.cuts(request)), [true; 3]);
        assert!(cut.is_blown() && cut.take_out() == 1);
        assert!(!cut.cuts(&binding));
    }
}
