//! Which proxy leads to the API server?
//!
//! The same as for kubectl and for programs with client-go. `proxy-url` of the kubeconfig's cluster is used in any case. Without it, `HTTPS_PROXY` is used
//! (`HTTP_PROXY` for a server without TLS), unless `NO_PROXY` names the server or the server is this machine. Each variable may be in lower case.
//!
//! kube has rules of its own: it looks for the *proxy* in `NO_PROXY`, and reads no variable in a pod.

use std::net::IpAddr;

use axum::http::Uri;
use axum::http::uri::InvalidUri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Converts a kubeconfig to the configuration of a client, with the proxy.
///
/// # Errors
///
/// The kubeconfig cannot be used, or the URL of the proxy cannot be parsed.
pub async fn configuration(file: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, KubeconfigError> {
    let own = proxy_url(&file, options.context.as_deref()).map(str::to_owned);
    let mut config = Config::from_custom_kubeconfig(file, options).await?;
    config.proxy_url = match own {
        Some(own) => Some(with_scheme(&own).map_err(KubeconfigError::ParseProxyUrl)?),
        None => from_environment(&config.cluster_url).map_err(KubeconfigError::ParseProxyUrl)?,
    };
    Ok(config)
}

/// Returns the proxy that the environment names for the server; `None` where it names none.
///
/// # Errors
///
/// The variable is no URL.
pub fn from_environment(server: &Uri) -> Result<Option<Uri>, InvalidUri> {
    of_variables(server, |name| std::env::var(name).ok())
}

/// Returns `proxy-url` of the cluster of a context; by default of the current context.
fn proxy_url<'a>(file: &'a Kubeconfig, context: Option<&str>) -> Option<&'a str> {
    let context = context.or(file.current_context.as_deref())?;
    let context = file.contexts.iter().find(|each| each.name == context)?.context.as_ref()?;
    let cluster = file.clusters.iter().find(|each| each.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_deref().filter(|url| !url.is_empty())
}

fn of_variables(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Uri>, InvalidUri> {
    let either =
        |name: &str| [name.to_owned(), name.to_lowercase()].iter().filter_map(|name| variable(name)).find(|value| !value.is_empty());
    let name = if server.scheme_str() == Some("http") { "HTTP_PROXY" } else { "HTTPS_PROXY" };
    let Some(proxy) = either(name) else { return Ok(None) };
    let proxy = with_scheme(&proxy)?;
    let rules = Matcher::builder().http(proxy.to_string()).https(proxy.to_string()).no(either("NO_PROXY").unwrap_or_default()).build();
    let wanted = !is_this_machine(server) && rules.intercept(server).is_some();
    Ok(wanted.then_some(proxy))
}

/// Whether the server is on the loopback interface.
fn is_this_machine(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the URL of a proxy; without a scheme it is an HTTP proxy.
fn with_scheme(url: &str) -> Result<Uri, InvalidUri> {
    if url.contains("://") { url.parse() } else { format!("http://{url}").parse() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the proxy for a server, with these variables.
    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(each, _)| *each == name).map(|(_, value)| (*value).to_owned());
        of_variables(&server.parse().unwrap(), value).unwrap().map(|uri| uri.to_string())
    }

    #[test]
    fn the_variables_of_the_environment_are_read_as_by_kubectl() {
        let some = Some("http://user:pass@proxy:3128/".to_owned());
        let https = ("HTTPS_PROXY", "http://user:pass@proxy:3128");
        assert_eq!(proxy("https://10.96.0.1", &[https]), some);
        assert_eq!(proxy("https://10.96.0.1", &[("https_proxy", "user:pass@proxy:3128")]), some, "without a scheme, in lower case");
        assert_eq!(proxy("https://10.96.0.1", &[("HTTPS_PROXY", ""), ("https_proxy", https.1)]), some, "an empty variable is none");
        assert_eq!(proxy("https://10.96.0.1", &[]), None);
        assert_eq!(proxy("https://10.96.0.1", &[("HTTP_PROXY", https.1)]), None);
        assert_eq!(proxy("http://10.96.0.1", &[("HTTP_PROXY", https.1)]), some);
        assert_eq!(proxy("https://a.example:6443", &[("HTTPS_PROXY", "socks5://proxy:1080")]), Some("socks5://proxy:1080/".to_owned()));
    }

    #[test]
    fn a_server_that_no_proxy_names_or_that_is_this_machine_needs_no_proxy() {
        // The name of the proxy in NO_PROXY decides nothing.
        let direct = |server, no: &str| proxy(server, &[("HTTPS_PROXY", "http://proxy.corp:3128"), ("NO_PROXY", no)]).is_none();
        assert!(!direct("https://10.96.0.1", ".corp,proxy.corp"));
        assert!(direct("https://10.96.0.1", "10.0.0.0/8"));
        assert!(direct("https://10.96.0.1", "x, 10.96.0.1,"), "a comma at the end is no error");
        assert!(!direct("https://10.96.0.1", "10.0.0.0/16"));
        assert!(direct("https://api.corp:6443", ".corp"));
        assert!(direct("https://api.corp:6443", "*"));
        assert!(!direct("https://api.corp:6443", "other"));
        for here in ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"] {
            assert!(direct(here, ""), "{here}");
        }
        assert!(of_variables(&"https://a".parse().unwrap(), |_| Some("http://[".to_owned())).is_err());
    }

    #[tokio::test]
    async fn the_proxy_of_the_kubeconfig_is_that_of_its_context() {
        let text = "
current-context: one
contexts: [{name: one, context: {cluster: a}}, {name: two, context: {cluster: b}}, {name: three, context: {cluster: c}}]
clusters:
- {name: a, cluster: {server: 'https://127.0.0.1:1', proxy-url: 'http://proxy-a:1'}}
- {name: b, cluster: {server: 'https://127.0.0.1:1', proxy-url: 'socks5://proxy-b:2'}}
- {name: c, cluster: {server: 'https://127.0.0.1:1'}}";
        let proxy = async |context: Option<&str>| {
            let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
            let config = configuration(Kubeconfig::from_yaml(text).unwrap(), &options).await.unwrap();
            config.proxy_url.map(|uri| uri.to_string())
        };
        assert_eq!(proxy(None).await.as_deref(), Some("http://proxy-a:1/"), "also for a server on this machine");
        assert_eq!(proxy(Some("two")).await.as_deref(), Some("socks5://proxy-b:2/"));
        assert_eq!(proxy(Some("three")).await, None);
    }
}
