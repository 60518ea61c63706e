//! Which proxy leads to the API server?
//!
//! The same as for kubectl and for programs with client-go. `proxy-url` of the kubeconfig's cluster is used in any case. Without it,
//! `HTTPS_PROXY` is used (`HTTP_PROXY` for a server without TLS), unless `NO_PROXY` names the server or the server is this machine. Each
//! variable may be in lower case. The rules are those of golang.org/x/net/http/httpproxy, except for unusual entries of `NO_PROXY`: an
//! address in brackets without a port, an empty port, names that are not ASCII.
//!
//! kube has rules of its own: it looks for the *proxy* in `NO_PROXY`, and reads no variable in a pod. With a kubeconfig and a proxy it
//! still reads `NO_PROXY`, and refuses each entry that is no name, address or range in its form, such as an empty one.

use std::net::IpAddr;

use axum::http::Uri;
use axum::http::uri::InvalidUri;
use ipnet::IpNet;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, NoProxyError};
use thiserror::Error;

/// Why there is no configuration. No text has a part of the proxy's URL, which may contain a password.
#[derive(Debug, Error)]
pub enum Unusable {
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(KubeconfigError),
    /// kube cannot read `NO_PROXY`.
    #[error("NO_PROXY: {0}")]
    NoProxy(String),
    /// The proxy cannot be used.
    #[error("the proxy of the kubeconfig: {0}")]
    OfKubeconfig(ProxyError),
    /// The proxy cannot be used.
    #[error("the proxy of the environment: {0}")]
    OfEnvironment(#[from] ProxyError),
}

impl From<KubeconfigError> for Unusable {
    fn from(error: KubeconfigError) -> Self {
        let KubeconfigError::ParseNoProxy(error) = error else { return Self::Kubeconfig(error) };
        Self::NoProxy(match error {
            // Its text has the URL of the proxy.
            NoProxyError::NoHost { .. } => "an entry has no host, or the proxy has none".to_owned(),
            NoProxyError::EmptyInput | NoProxyError::EmptyValue | NoProxyError::ParseMatcher { .. } => error.to_string(),
        })
    }
}

/// Why a proxy cannot be used.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// Its URL cannot be parsed.
    #[error("its URL cannot be parsed: {0}")]
    Url(#[from] InvalidUri),
    /// Its scheme is not supported.
    #[error("its scheme is none of http, https and socks5")]
    Scheme,
    /// kube sends no credentials to a SOCKS5 proxy.
    #[error("a user for a SOCKS5 proxy is not supported")]
    SocksUser,
}

/// Converts a kubeconfig to the configuration of a client, with the proxy.
///
/// # Errors
///
/// The kubeconfig or the proxy cannot be used.
pub async fn configuration(file: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, Unusable> {
    let own = proxy_url(&file, options.context.as_deref()).map(str::to_owned);
    let mut config = Config::from_custom_kubeconfig(file, options).await?;
    let Some(own) = own else { return with_environment(config) };
    config.proxy_url = Some(proxy(&own).map_err(Unusable::OfKubeconfig)?);
    Ok(config)
}

/// Gives the configuration the proxy that the environment names for its server, or none.
///
/// # Errors
///
/// The proxy cannot be used.
pub fn with_environment(mut config: Config) -> Result<Config, Unusable> {
    config.proxy_url = of_variables(&config.cluster_url, |name| std::env::var(name).ok())?;
    Ok(config)
}

/// Returns `proxy-url` of the cluster of a context; by default of the current context.
fn proxy_url<'a>(file: &'a Kubeconfig, context: Option<&str>) -> Option<&'a str> {
    let context = context.or(file.current_context.as_deref())?;
    let context = file.contexts.iter().find(|each| each.name == context)?.context.as_ref()?;
    let cluster = file.clusters.iter().find(|each| each.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_deref().filter(|url| !url.is_empty())
}

fn of_variables(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Uri>, ProxyError> {
    let either =
        |name: &str| [name.to_owned(), name.to_lowercase()].iter().filter_map(|name| variable(name)).find(|value| !value.is_empty());
    let plain = server.scheme_str() == Some("http");
    let Some(url) = either(if plain { "HTTP_PROXY" } else { "HTTPS_PROXY" }) else { return Ok(None) };
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_lowercase();
    let port = server.port_u16().unwrap_or(if plain { 80 } else { 443 });
    if goes_direct(&host, port, &either("NO_PROXY").unwrap_or_default()) { Ok(None) } else { proxy(&url).map(Some) }
}

/// Whether the server is on this machine, or `NO_PROXY` names it.
fn goes_direct(host: &str, port: u16, no_proxy: &str) -> bool {
    let address = host.parse::<IpAddr>().ok();
    let named = |entry: &str| {
        if entry == "*" {
            return true;
        }
        if let Ok(range) = entry.parse::<IpNet>() {
            return address.is_some_and(|address| range.contains(&address));
        }
        let (name, its_port) = split_port(entry);
        let same_host = match (name.parse::<IpAddr>(), address) {
            (Ok(named), Some(address)) => named == address,
            (Ok(_), None) | (Err(_), Some(_)) => false,
            (Err(_), None) => is_domain_of(name, host),
        };
        same_host && its_port.is_none_or(|its_port| its_port == port)
    };
    host == "localhost"
        || address.is_some_and(|address| address.is_loopback())
        || no_proxy.to_lowercase().split(',').map(str::trim).any(named)
}

/// Whether the entry names the host: `corp` does so for itself and what is below it, `.corp` and `*.corp` for what is below.
fn is_domain_of(entry: &str, host: &str) -> bool {
    let below = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
    let domain = below.strip_prefix('.').unwrap_or(below);
    let is_below = host.strip_suffix(domain).is_some_and(|before| before.ends_with('.'));
    !domain.is_empty() && (is_below || (below == domain && host == domain))
}

/// Splits `HOST:PORT` and `[ADDRESS]:PORT`; the port is `None` where the entry has none.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    let with_port = entry.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match with_port {
        // Not the last part of an IPv6 address.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host.trim_matches(['[', ']']), Some(port)),
        _ => (entry.trim_matches(['[', ']']), None),
    }
}

/// Returns the proxy of this URL; without a scheme it is an HTTP proxy, and without a port a SOCKS5 proxy has the port 1080.
fn proxy(url: &str) -> Result<Uri, ProxyError> {
    let url = if url.contains("://") { url.replacen("socks5h://", "socks5://", 1) } else { format!("http://{url}") };
    let uri: Uri = url.parse()?;
    match uri.scheme_str() {
        Some("socks5") if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => Err(ProxyError::SocksUser),
        // hyper-util would use port 80.
        Some("socks5") if uri.authority().map(axum::http::uri::Authority::as_str) == uri.host() => {
            Ok(format!("socks5://{}:1080", uri.host().unwrap_or_default()).parse()?)
        }
        Some("http" | "https" | "socks5") => Ok(uri),
        _ => Err(ProxyError::Scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the proxy for a server, with these variables.
    fn chosen(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(each, _)| *each == name).map(|(_, value)| (*value).to_owned());
        of_variables(&server.parse().unwrap(), value).unwrap().map(|uri| uri.to_string())
    }

    #[test]
    fn the_variables_of_the_environment_are_read_as_by_kubectl() {
        let some = Some("http://user:pass@proxy:3128/".to_owned());
        let https = ("HTTPS_PROXY", "http://user:pass@proxy:3128");
        assert_eq!(chosen("https://10.96.0.1", &[https]), some);
        assert_eq!(chosen("https://10.96.0.1", &[("https_proxy", "user:pass@proxy:3128")]), some, "without a scheme, in lower case");
        assert_eq!(chosen("https://10.96.0.1", &[("HTTPS_PROXY", ""), ("https_proxy", https.1)]), some, "an empty variable is none");
        assert_eq!(chosen("https://10.96.0.1", &[]), None);
        assert_eq!(chosen("https://10.96.0.1", &[("HTTP_PROXY", https.1)]), None);
        assert_eq!(chosen("http://10.96.0.1", &[("HTTP_PROXY", https.1)]), some);
        assert_eq!(chosen("https://a.example:6443", &[("HTTPS_PROXY", "socks5h://proxy:1080")]), Some("socks5://proxy:1080/".to_owned()));
        assert_eq!(chosen("https://a.example:6443", &[("HTTPS_PROXY", "socks5://proxy")]), Some("socks5://proxy:1080/".to_owned()));
        assert_eq!(chosen("https://a.example:6443", &[("HTTPS_PROXY", "socks5://[fd00::2]")]), Some("socks5://[fd00::2]:1080/".to_owned()));
    }

    /// The rows were run with golang.org/x/net/http/httpproxy, too.
    #[test]
    fn a_server_that_no_proxy_names_or_that_is_this_machine_needs_no_proxy() {
        let direct = |server, no: &str| chosen(server, &[("HTTPS_PROXY", "http://proxy.corp:3128"), ("NO_PROXY", no)]).is_none();
        let (address, name) = ("https://10.96.0.1", "https://api.corp:6443");
        let table = [
            (address, "10.0.0.0/8", true),
            (address, "10.0.0.0/16", false),
            (address, "x, 10.96.0.1,", true),
            (address, "10.96.0.1:443", true),
            (address, "10.96.0.1:6443", false),
            (address, "*", true),
            (address, ".corp,proxy.corp", false),
            (name, "*", true),
            (name, ".corp", true),
            (name, "*.corp", true),
            (name, "CORP", true),
            (name, "api.corp", true),
            (name, "api.corp:6443", true),
            (name, "api.corp:443", false),
            (name, "i.corp", false),
            (name, ".api.corp", false),
            (name, "other", false),
            (name, ",", false),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "fd00::2", false),
            ("https://127.0.0.1:6443", "", true),
            ("https://localhost:6443", "", true),
            ("https://[::1]:6443", "", true),
        ];
        for (server, no, want) in table {
            assert_eq!(direct(server, no), want, "{server} with NO_PROXY={no}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
        let said = |url: &str| proxy(url).unwrap_err().to_string();
        for url in ["socks4://user:secret@p:1080", "user://secret@p", "socks5://user:secret@p:1080", "http://user:secret@["] {
            assert!(!said(url).contains("secret"), "{}", said(url));
        }
        let uri = Box::new(Uri::from_static("//user:secret@p"));
        let of_kube = Unusable::from(KubeconfigError::ParseNoProxy(NoProxyError::NoHost { uri }));
        assert!(!format!("{of_kube} {:?}", std::error::Error::source(&of_kube)).contains("secret"), "{of_kube}");
        assert_eq!(said("ftp://p"), "its scheme is none of http, https and socks5");
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
