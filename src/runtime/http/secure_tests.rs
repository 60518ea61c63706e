//! The answers to a scraper, a probe and an unauthorized client with `--secure-serving`, over real TLS connections; and the limits for slow clients.

use super::*;
use crate::runtime::http::Refresh;
use crate::runtime::http::access::tests::fake_server;
use crate::runtime::http::connections::Activity;
use crate::runtime::http::listener::{CONNECTIONS, Peer, requests};
use crate::runtime::http::tls::tests::{Mount, client};
use crate::runtime::metrics;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

async fn start(secure: Option<Secure>) -> (SocketAddr, JoinSet<std::io::Result<()>>, crate::runtime::shutdown::Trigger) {
    let slow = || async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Some(serde_json::json!({"nodes": 3}))
    };
    let debug = vec![
        DebugRoute::new("/debug/ledger", || Box::pin(async { Some(serde_json::json!({"nodes": 3})) })),
        DebugRoute::new("/debug/slow", move || Box::pin(slow())),
    ];
    let metrics = Exposition::new(metrics::registry().unwrap(), Refresh::nothing());
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(any, metrics, Readiness::new(), Watchdog::new(), debug, secure).await.unwrap();
    let (address, (trigger, stop)) = (server.address(), Shutdown::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(stop));
    (address, tasks, trigger)
}

async fn get(address: SocketAddr, tls: Option<&TlsConnector>, path: &str, token: Option<&str>) -> (u16, String) {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
    let stream = TcpStream::connect(address).await.unwrap();
    get_on(stream, tls, &request).await
}

async fn get_on(stream: TcpStream, tls: Option<&TlsConnector>, request: &str) -> (u16, String) {
    let text = match tls {
        Some(tls) => exchange(tls.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap(), request).await,
        None => exchange(stream, request).await,
    };
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, text)
}

async fn exchange(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _cut = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn health_is_open_and_the_other_paths_need_authorization() {
    let mount = Mount::new("http");
    let certificate = mount.make("one");
    let (_played, access) = fake_server();
    let secure = Secure { certificate: Certificate::new(Some(mount.files())).unwrap(), access };
    let (address, _tasks, _trigger) = start(Some(secure)).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let tls = client(&[&certificate], &[version]);
        for (path, token, code) in [
            ("/healthz", None, 200),
            ("/readyz", None, 200),
            ("/metrics", None, 401),
            ("/metrics", Some("bad"), 401),
            ("/metrics", Some("poor"), 403),
            ("/metrics", Some("good"), 200),
            ("/metrics?name=x", Some("good"), 200),
            ("/debug/ledger", None, 401),
            ("/debug/ledger", Some("good"), 403),
            ("/metrics/", None, 404),
            ("//metrics", None, 404),
            ("/nothing", Some("good"), 404),
        ] {
            let (got, text) = get(address, Some(&tls), path, token).await;
            assert_eq!(got, code, "{path} {token:?}: {text}");
            assert_eq!(text.contains("podgroup_build_info"), path.starts_with("/metrics") && code == 200, "{text}");
            assert_eq!(text.to_lowercase().contains("www-authenticate: bearer"), code == 401, "{text}");
        }
        let (_, text) = get(address, Some(&tls), "/metrics", Some("poor")).await;
        assert!(text.contains("user=eve, verb=get, path=/metrics"), "{text}");
    }
    assert!(!get(address, None, "/metrics", Some("good")).await.1.contains("podgroup"));
}

#[tokio::test]
async fn a_client_that_holds_every_connection_blocks_no_probe() {
    let mount = Mount::new("crowd");
    let certificate = mount.make("one");
    let (_played, access) = fake_server();
    let tls = client(&[&certificate], &[&rustls::version::TLS13]);
    let secure = Secure { certificate: Certificate::new(Some(mount.files())).unwrap(), access };
    for (secure, tls) in [(Some(secure), Some(&tls)), (None, None)] {
        let (address, _tasks, _trigger) = start(secure).await;
        let mut crowd = Vec::new();
        for _ in 0..CONNECTIONS * 2 {
            crowd.push(TcpStream::connect(address).await.unwrap());
        }
        let probe = tokio::time::timeout(Duration::from_secs(4), get(address, tls, "/healthz", None)).await;
        assert_eq!(probe.unwrap().0, 200);
        // The first connection was closed for the probe; the last one is still open.
        let mut first = crowd.swap_remove(0);
        let ended = tokio::time::timeout(Duration::from_secs(4), first.read(&mut [0])).await;
        assert_eq!(ended.unwrap().unwrap_or(0), 0);
        let mut last = crowd.pop().unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(100), last.read(&mut [0])).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn slow_headers_and_endless_headers_end_the_connection() {
    let (_trigger, stop) = Shutdown::new();
    let (mut here, there) = tokio::io::duplex(64);
    let began = crate::runtime::clock::monotonic();
    let slowly = async {
        here.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        while here.write_all(b"X: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::join!(slowly, requests(there, Peer([127, 0, 0, 1].into()), Router::new(), Activity::default(), stop.clone()));
    let took = crate::runtime::clock::monotonic() - began;
    assert!(took >= Duration::from_secs(15) && took <= Duration::from_secs(22), "{took:?}");

    let (mut here, there) = tokio::io::duplex(64);
    let endless = async {
        here.write_all(b"GET /healthz HTTP/1.1\r\nX: ").await.unwrap();
        let mut bytes = 0_usize;
        while here.write_all(&[b'y'; 64]).await.is_ok() {
            bytes += 64;
            assert!(bytes < 100 * 1024);
            let mut some = [0; 64];
            let _answer = tokio::time::timeout(Duration::from_millis(1), here.read(&mut some)).await;
        }
    };
    tokio::join!(endless, requests(there, Peer([127, 0, 0, 1].into()), Router::new(), Activity::default(), stop));
}

/// A flood of connections that ask for nothing, as many as this machine makes, on a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_connections_ends_no_request_under_way_and_every_probe_is_answered() {
    let (address, _tasks, _trigger) = start(None).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /debug/slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    // The server has read the request when it has answered a later one.
    assert_eq!(get(address, None, "/healthz", None).await.0, 200);
    let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flood = {
        let ends = Arc::clone(&ends);
        std::thread::spawn(move || {
            let (mut open, mut made) = (std::collections::VecDeque::new(), 0_u32);
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                open.extend(std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok());
                made += 1;
                if open.len() > CONNECTIONS {
                    open.pop_front();
                }
            }
            made
        })
    };
    let mut probes = 0;
    let began = crate::runtime::clock::monotonic();
    while began.elapsed() < Duration::from_secs(1) {
        // The node has another address than the pod that makes the flood.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let probe = async {
            let stream = socket.connect(address).await.unwrap();
            get_on(stream, None, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.0
        };
        // On a busy machine the flood fills the kernel's queue of connections, and the probe's packets are sent again.
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), probe).await.unwrap(), 200);
        probes += 1;
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("{\"nodes\":3}"), "{answer}");
    ends.store(true, std::sync::atomic::Ordering::Relaxed);
    let made = flood.join().unwrap();
    println!("{made} connections, {probes} probes");
    assert!(made > 10 * u32::try_from(CONNECTIONS).unwrap() && probes > 0);
}
