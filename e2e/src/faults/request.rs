//! Reads a request to the API server as RBAC reads it: verb, resource, object.

use hyper::{Method, Uri};

/// The verbs of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects, one page at a time.
    List,
    /// Sends the changes as they happen.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// Anything else: discovery, `deletecollection`, requests without a resource.
    Other,
}

impl Verb {
    /// Returns the name of the verb in RBAC.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }

    /// Returns whether the request changes an object.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete)
    }
}

/// One request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRequest {
    /// The verb.
    pub verb: Verb,
    /// The plural resource name, with `/subresource` if there is one. For a request without a resource: the URL path.
    pub resource: String,
    /// The namespace; empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// The object's name; empty when the request names no object.
    pub name: String,
    /// The `resourceVersion` of the query; empty when it has none.
    pub version: String,
    /// Whether it requests a further page of a list.
    pub continues: bool,
    /// Path and selectors. A list and a watch of the same objects have the same value.
    pub collection: String,
}

impl ApiRequest {
    /// Reads method and URI of a request.
    pub fn read(method: &Method, uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let parameter = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let inside = match parts.as_slice() {
            ["api", _, inside @ ..] | ["apis", _, _, inside @ ..] => inside,
            _ => &[],
        };
        let (namespace, inside) = match inside {
            // `namespaces/x` without more is the namespace object.
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", inside),
        };
        let (resource, name) = match inside {
            [resource] => ((*resource).to_owned(), ""),
            [resource, name] => ((*resource).to_owned(), *name),
            [resource, name, sub, ..] => (format!("{resource}/{sub}"), *name),
            [] => (uri.path().to_owned(), ""),
        };
        let watches = matches!(parameter("watch"), "true" | "1");
        let verb = match (method.as_str(), name.is_empty()) {
            _ if inside.is_empty() => Verb::Other,
            ("GET", true) if watches => Verb::Watch,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", false) => Verb::Delete,
            _ => Verb::Other,
        };
        Self {
            verb,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: parameter("resourceVersion").to_owned(),
            continues: !parameter("continue").is_empty(),
            collection: format!("{}?labelSelector={}&fieldSelector={}", uri.path(), parameter("labelSelector"), parameter("fieldSelector")),
        }
    }
}

impl std::fmt::Display for ApiRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb.name(), self.resource)?;
        match (self.namespace.is_empty(), self.name.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => write!(f, " {}/", self.namespace),
            (true, false) => write!(f, " {}", self.name),
            (false, false) => write!(f, " {}/{}", self.namespace, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> ApiRequest {
        ApiRequest::read(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn a_request_is_read_as_rbac_reads_it() {
        let groups = "/apis/scheduling.volcano.sh/v1beta1";
        let namespaced = format!("{groups}/namespaces/default/podgroups");
        for (method, uri, said) in [
            ("GET", format!("{groups}/podgroups?limit=500"), "list podgroups"),
            ("GET", format!("{groups}/podgroups?watch=true&resourceVersion=7"), "watch podgroups"),
            ("GET", format!("{namespaced}/a"), "get podgroups default/a"),
            ("POST", namespaced.clone(), "create podgroups default/"),
            ("DELETE", format!("{namespaced}/a"), "delete podgroups default/a"),
            ("PATCH", format!("{groups}/queues/q/status"), "patch queues/status q"),
            ("POST", "/api/v1/namespaces/n/pods/p/binding".to_owned(), "create pods/binding n/p"),
            ("GET", "/api/v1/namespaces/n".to_owned(), "get namespaces n"),
            ("GET", "/api/v1/namespaces/n/pods".to_owned(), "list pods n/"),
            ("DELETE", "/api/v1/namespaces/n/pods".to_owned(), "other pods n/"),
            ("GET", "/version".to_owned(), "other /version"),
        ] {
            assert_eq!(read(method, &uri).to_string(), said, "{method} {uri}");
        }
    }

    #[test]
    fn a_list_and_a_watch_of_the_same_objects_are_known_as_such() {
        let list = read("GET", "/api/v1/pods?limit=500&fieldSelector=a%3Db");
        let watch = read("GET", "/api/v1/pods?watch=true&resourceVersion=7&fieldSelector=a%3Db");
        assert_eq!(list.collection, watch.collection);
        assert_eq!((watch.version.as_str(), list.version.as_str()), ("7", ""));
        assert_ne!(read("GET", "/api/v1/pods?limit=500").collection, list.collection);
        assert!(read("GET", "/api/v1/pods?limit=500&continue=x").continues);
    }
}
