//! The answers to a probe, a scraper and a person with curl, over real connections.

use super::*;
use crate::runtime::http::Refresh;
use crate::runtime::http::connections::Activity;
use crate::runtime::shutdown::Trigger;
use crate::runtime::{clock, metrics};
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinSet, spawn_blocking};

struct Running {
    address: SocketAddr,
    readiness: Readiness,
    watchdog: Watchdog,
    trigger: Trigger,
    tasks: JoinSet<std::io::Result<()>>,
}

async fn start(debug: Vec<DebugRoute>) -> Running {
    let (readiness, watchdog) = (Readiness::new(), Watchdog::new());
    let metrics = Exposition::new(metrics::registry().unwrap(), Refresh::nothing());
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(any, metrics, readiness.clone(), watchdog.clone(), debug, None).await.unwrap();
    let (address, (trigger, stop)) = (server.address(), Shutdown::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(stop));
    Running { address, readiness, watchdog, trigger, tasks }
}

/// Returns the status code and the whole answer.
async fn get(address: SocketAddr, path: &'static str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let exchange = move || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    let text = spawn_blocking(exchange).await.unwrap().unwrap();
    let code = text.split(' ').nth(1).unwrap().parse().unwrap();
    (code, text)
}

#[tokio::test]
async fn it_is_healthy_at_once_and_ready_when_the_lists_are_complete() {
    let running = start(Vec::new()).await;
    let pods = running.readiness.expect("pods");
    pods.trouble(Some("forbidden: no".to_owned()));
    assert_eq!(get(running.address, "/healthz").await.0, 200);
    let (code, text) = get(running.address, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.ends_with("pods: waiting (forbidden: no)\n"), "{text}");
    pods.complete();
    pods.trouble(None);
    assert_eq!(get(running.address, "/readyz").await.0, 200);
    let (code, text) = get(running.address, "/metrics").await;
    assert!(code == 200 && text.contains("podgroup_build_info{"), "{text}");
    assert_eq!(get(running.address, "/nothing").await.0, 404);
}

#[tokio::test]
async fn a_loop_that_hangs_is_unhealthy_until_it_makes_progress_again() {
    let running = start(Vec::new()).await;
    running.watchdog.begin();
    assert_eq!(get(running.address, "/healthz").await.0, 200);
    tokio::time::pause();
    tokio::time::advance(crate::runtime::watchdog::STALLED_AFTER).await;
    tokio::time::resume();
    let (code, text) = get(running.address, "/healthz").await;
    assert!(code == 503 && text.contains("has made no progress for 60 s"), "{text}");
    running.watchdog.progress();
    assert_eq!(get(running.address, "/healthz").await.0, 200);
}

#[tokio::test]
async fn a_debug_path_asks_the_owner_of_the_state() {
    let (owner, mut questions) = mpsc::channel(1);
    let gone = mpsc::channel(1).0;
    let routes = vec![DebugRoute::ask("/debug/ledger", owner, |reply| reply), DebugRoute::ask("/debug/gone", gone, |reply| reply)];
    let running = start(routes).await;
    let answering = async {
        let reply: oneshot::Sender<_> = questions.recv().await.unwrap();
        reply.send(serde_json::json!({"nodes": 3})).unwrap();
    };
    let ((code, text), ()) = tokio::join!(get(running.address, "/debug/ledger"), answering);
    assert!(code == 200 && text.ends_with("{\"nodes\":3}"), "{text}");
    assert_eq!(get(running.address, "/debug/gone").await.0, 503);
}

#[tokio::test]
async fn without_an_answer_of_the_owner_and_with_too_many_requests_the_answer_is_503() {
    let silent = || DebugRoute::new("/debug/silent", || Box::pin(std::future::pending()));
    let running = start(vec![silent()]).await;
    let began = clock::monotonic();
    let mut crowd = JoinSet::new();
    for _ in 0..REQUESTS + 4 {
        crowd.spawn(get(running.address, "/debug/silent"));
    }
    let mut refused_at_once = 0;
    while let Some(answer) = crowd.join_next().await {
        let (code, text) = answer.unwrap();
        assert_eq!(code, 503);
        refused_at_once += usize::from(text.contains("too many requests"));
    }
    assert_eq!(refused_at_once, 4);
    assert!(clock::monotonic() - began >= ANSWER);
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let running = start(Vec::new()).await;
    let metrics = Exposition::new(metrics::registry().unwrap(), Refresh::nothing());
    let second = Server::bind(running.address, metrics, Readiness::new(), Watchdog::new(), Vec::new(), None).await;
    let error = second.err().unwrap().to_string();
    assert!(error.starts_with(&format!("--http-address {}", running.address)), "{error}");
}

#[tokio::test]
async fn it_ends_on_stop_also_with_a_connection_that_stays_open() {
    let mut running = start(Vec::new()).await;
    let address = running.address;
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut some = [0; 12];
        stream.read_exact(&mut some).unwrap();
        stream
    };
    let _open = spawn_blocking(exchange).await.unwrap();
    running.trigger.trigger();
    let ended = tokio::time::timeout(Duration::from_secs(1), running.tasks.join_next()).await;
    assert!(ended.is_ok());
}

/// Returns the status code for a client with this address.
async fn answer_to(peer: &str, path: &str) -> String {
    let debug = vec![DebugRoute::new("/debug/ledger", || Box::pin(async { Some(serde_json::json!({"nodes": 3})) }))];
    let metrics = Exposition::new(metrics::registry().unwrap(), Refresh::nothing());
    let app = app(metrics, Readiness::new(), Watchdog::new(), debug, None);
    let (mut client, server) = tokio::io::duplex(4096);
    let (_trigger, stop) = Shutdown::new();
    let exchange = async {
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut code = [0; 12];
        client.read_exact(&mut code).await.unwrap();
        drop(client);
        String::from_utf8_lossy(&code).into_owned()
    };
    tokio::join!(exchange, listener::requests(server, Peer(peer.parse().unwrap()), app, Activity::default(), stop)).0
}

#[tokio::test]
async fn a_debug_path_is_served_on_the_loopback_address_only() {
    for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(answer_to(local, "/debug/ledger").await, "HTTP/1.1 200", "{local}");
    }
    for other in ["10.0.0.7", "::ffff:10.0.0.7", "fd00::7"] {
        assert_eq!(answer_to(other, "/debug/ledger").await, "HTTP/1.1 403", "{other}");
        assert_eq!(answer_to(other, "/metrics").await, "HTTP/1.1 200", "{other}");
        assert_eq!(answer_to(other, "/healthz").await, "HTTP/1.1 200", "{other}");
    }
}
