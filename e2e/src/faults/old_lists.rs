//! What does an API server answer that is cut off from etcd? Its lists show what it knew, and its watches say nothing.
//!
//! Lists of the chosen resources are recorded as they pass. Later the same requests are answered with the records, again and again, until the case ends it. Meanwhile a
//! watch of these resources is opened and says nothing. All other requests reach the API server.

use std::collections::{BTreeMap, BTreeSet};

use hyper::Uri;
use hyper::body::Bytes;
use hyper::http::response::Parts;

use super::request::{ApiRequest, Verb};

/// The records of one proxy.
#[derive(Debug, Default)]
pub(super) struct OldLists {
    resources: &'static [&'static str],
    repeats: bool,
    /// The last answer to each request.
    recorded: BTreeMap<String, (Parts, Bytes)>,
    /// The resources of which a record was shown.
    shown: BTreeSet<String>,
}

impl OldLists {
    /// Records the lists of these resources from now on.
    pub(super) fn record(&mut self, resources: &'static [&'static str]) {
        *self = Self { resources, ..Self::default() };
    }

    /// Sets whether the records are shown.
    pub(super) fn repeat(&mut self, repeats: bool) {
        self.repeats = repeats;
    }

    /// Returns whether the answer to this request is to be recorded.
    pub(super) fn wants(&self, request: &ApiRequest) -> bool {
        !self.repeats && self.is_list(request)
    }

    /// Records an answer.
    pub(super) fn keep(&mut self, uri: &Uri, answer: (Parts, Bytes)) {
        if answer.0.status.is_success() {
            self.recorded.insert(uri.to_string(), answer);
        }
    }

    /// Returns the record that answers this request.
    pub(super) fn answer(&mut self, request: &ApiRequest, uri: &Uri) -> Option<(Parts, Bytes)> {
        let record = self.recorded.get(&uri.to_string()).filter(|_| self.repeats && self.is_list(request)).cloned()?;
        self.shown.insert(request.resource.clone());
        Some(record)
    }

    /// Returns whether this request is a watch that says nothing.
    pub(super) fn silences(&self, request: &ApiRequest) -> bool {
        self.repeats && request.verb == Verb::Watch && self.has(&request.resource)
    }

    /// Describes the lists that were never shown.
    pub(super) fn never_shown(&self) -> Vec<String> {
        self.resources
            .iter()
            .filter(|resource| !self.shown.contains(**resource))
            .map(|resource| format!("an old list of {resource}"))
            .collect()
    }

    fn is_list(&self, request: &ApiRequest) -> bool {
        request.verb == Verb::List && !request.continues && self.has(&request.resource)
    }

    fn has(&self, resource: &str) -> bool {
        self.resources.contains(&resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(status: u16) -> Parts {
        hyper::Response::builder().status(status).body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_recorded_list_is_shown_again_and_again_and_no_other_request_changes() {
        let read = |uri: &str| (ApiRequest::read(&hyper::Method::GET, &uri.parse().unwrap()), uri.parse::<Uri>().unwrap());
        let (pods, uri) = read("/api/v1/pods?limit=500");
        let (next, _) = read("/api/v1/pods?limit=500&continue=x");
        let (version, version_uri) = read("/api/v1/pods?limit=1");
        let (watch, _) = read("/api/v1/pods?watch=true&resourceVersion=7");
        let (nodes, nodes_uri) = read("/api/v1/nodes?limit=500");
        let mut old = OldLists::default();
        assert!(!old.wants(&pods) && old.never_shown().is_empty(), "nothing is ordered");
        old.record(&["pods"]);
        assert_eq!([&pods, &next, &watch, &nodes].map(|request| old.wants(request)), [true, false, false, false]);
        old.keep(&uri, (parts(200), Bytes::from("first")));
        old.keep(&uri, (parts(200), Bytes::from("second")));
        old.keep(&uri, (parts(500), Bytes::from("failed")));
        assert!(old.answer(&pods, &uri).is_none() && !old.silences(&watch), "it only records");
        assert_eq!(old.never_shown(), ["an old list of pods"]);
        old.repeat(true);
        for _ in 0..2 {
            assert_eq!(old.answer(&pods, &uri).unwrap().1, "second");
        }
        assert!(old.never_shown().is_empty() && !old.wants(&pods) && old.silences(&watch));
        assert!(old.answer(&version, &version_uri).is_none() && old.answer(&nodes, &nodes_uri).is_none());
        old.repeat(false);
        assert!(old.answer(&pods, &uri).is_none() && !old.silences(&watch));
    }
}
