//! An unusable configuration is one clear line; a client never repeats a request by itself.

use super::*;
use axum::http::{HeaderMap, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncBufReadExt;
use tokio::task::JoinSet;

async fn error_of(content: Option<&str>) -> String {
    let name = format!("podgroup-client-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    if let Some(content) = content {
        std::fs::write(&path, content).unwrap();
    }
    let error = connect(Some(&path), "test").await.unwrap_err().to_string();
    let _absent = std::fs::remove_file(&path);
    assert!(error.starts_with(&format!("--kubeconfig {}", path.display())), "{error}");
    assert!(!error.trim().contains('\n'), "one line: {error}");
    error
}

#[tokio::test]
async fn an_unusable_kubeconfig_is_one_line_that_names_the_file() {
    error_of(None).await;
    error_of(Some("")).await;
    error_of(Some("what: [is this")).await;
    error_of(Some("apiVersion: v1\nkind: Config\ncurrent-context: none\n")).await;
}

fn at(namespace: &str) -> Connection {
    Connection { client: Client::new(axum::Router::new(), "x"), namespace: namespace.to_owned(), server: String::new() }
}

#[tokio::test]
async fn the_lease_is_in_the_namespace_of_the_flag_or_of_the_configuration() {
    assert_eq!(lease_namespace(Some("a"), &at("b")), "a");
    assert_eq!(lease_namespace(None, &at("b")), "b");
    assert_eq!(lease_namespace(None, &at("default")), "podgroup-system");
}

#[tokio::test]
async fn a_request_is_sent_once_and_its_user_agent_names_the_program() {
    let agents: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let seen = Arc::clone(&agents);
    let app = axum::Router::new().fallback(move |headers: HeaderMap| {
        let all = headers.get_all(header::USER_AGENT).iter();
        let all = all.map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
        seen.lock().unwrap().push(all.collect());
        async { (StatusCode::SERVICE_UNAVAILABLE, "later") }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await });

    let config = Config::new(format!("http://{address}/").parse().unwrap());
    let client = build(config, "podgroup-test").unwrap().client;
    let pods = Api::<Pod>::default_namespaced(client);
    // A client that repeats requests would take minutes here.
    let answer = tokio::time::timeout(Duration::from_secs(5), pods.get("p")).await;
    let error = answer.unwrap().unwrap_err();
    let error = super::super::call::CallError::from(error);
    assert_eq!(error.kind(), "unavailable");
    let agent = format!("podgroup-test/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(*agents.lock().unwrap(), [[agent]]);
}

#[tokio::test]
async fn a_request_goes_through_the_proxy_of_the_kubeconfig() {
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = Kubeconfig::from_yaml(&format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: c}}}}],
           clusters: [{{name: c, cluster: {{server: 'https://192.0.2.1:6443', proxy-url: 'http://user:pass@{}'}}}}]}}",
        proxy.local_addr().unwrap()
    ));
    let config = proxy::configuration(file.unwrap(), &KubeConfigOptions::default()).await.unwrap();
    let pods = Api::<Pod>::default_namespaced(build(config, "podgroup-test").unwrap().client);
    let mut request = JoinSet::new();
    request.spawn(async move { pods.get("p").await.map(|_| ()) });

    let (stream, _) = tokio::time::timeout(Duration::from_secs(5), proxy.accept()).await.unwrap().unwrap();
    let mut lines = tokio::io::BufReader::new(stream).lines();
    let mut head = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        head.push(line.to_lowercase());
    }
    assert_eq!(head.first().map(String::as_str), Some("connect 192.0.2.1:6443 http/1.1"));
    assert!(head.contains(&"proxy-authorization: basic dxnlcjpwyxnz".to_owned()), "{head:?}");
}
