//! A TCP proxy between a program and the API server. It can delay bytes, cut open connections, and refuse new ones.
//!
//! It does not read the bytes, so TLS passes through it. A delay is latency, not bandwidth: every chunk arrives later by its delay, in
//! order, and chunks that were sent together arrive together. Random delays come from a seed, which a failed case prints.
//!
//! The proxies have a thread of their own: what the runner computes must not keep a program from the API server. On a busy machine the
//! observer once did so for long enough that both programs of a case lost their leases.

use std::net::Ipv4Addr;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Where all proxies run.
static RUNTIME: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("proxies").enable_all().build());

/// Chunks in flight per direction. With 16 KiB each, a slow reader can be one megabyte behind.
const IN_FLIGHT: usize = 64;

/// The delay of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// No delay.
    #[default]
    None,
    /// Always this delay.
    Fixed(Duration),
    /// A random delay between the two, drawn for each chunk.
    Between(Duration, Duration),
}

#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    to_server: Delay,
    to_client: Delay,
    refuse: bool,
    /// A change of this number cuts all connections that were opened before.
    generation: u64,
}

/// A running proxy. Dropping it closes its port and every connection.
pub struct Proxy {
    port: u16,
    faults: watch::Sender<Faults>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free local port and forwards to the local port `server`.
    pub async fn start(server: u16, seed: u64) -> Result<Self> {
        let runtime = RUNTIME.as_ref().map_err(|error| anyhow!("the thread of the proxies: {error}"))?;
        let listener = runtime.spawn(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).await??;
        let port = listener.local_addr()?.port();
        let (faults, seen) = watch::channel(Faults::default());
        let mut tasks = JoinSet::new();
        tasks.spawn_on(accept(listener, server, seen, seed), runtime.handle());
        Ok(Self { port, faults, _tasks: tasks })
    }

    /// Returns its local port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the delays to the server and to the client, also for open connections.
    pub fn delay(&self, to_server: Delay, to_client: Delay) {
        self.faults.send_modify(|faults| {
            faults.to_server = to_server;
            faults.to_client = to_client;
        });
    }

    /// Cuts every open connection. New connections are accepted.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.generation += 1);
    }

    /// Sets whether new connections are closed at once. Open connections stay: see [`Self::cut`].
    pub fn refuse(&self, refuse: bool) {
        self.faults.send_modify(|faults| faults.refuse = refuse);
    }
}

/// Returns the next client that connects.
pub(crate) async fn next_client(listener: &TcpListener) -> TcpStream {
    loop {
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
        // There is no file handle left, for example.
        sleep(Duration::from_millis(50)).await;
    }
}

async fn accept(listener: TcpListener, server: u16, faults: watch::Receiver<Faults>, seed: u64) {
    let mut connections = JoinSet::new();
    let mut random = SeededRandom(seed);
    loop {
        while connections.try_join_next().is_some() {}
        let client = next_client(&listener).await;
        if !faults.borrow().refuse {
            connections.spawn(serve(client, server, faults.clone(), SeededRandom(random.draw_number())));
        }
    }
}

async fn serve(client: TcpStream, server: u16, mut faults: watch::Receiver<Faults>, mut random: SeededRandom) {
    let generation = faults.borrow().generation;
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
    // Without this the proxy itself would add delays: small writes would wait for each other's acknowledgement.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let second = SeededRandom(random.draw_number());
    let up = pump(from_client, to_server, faults.clone(), |faults| faults.to_server, random);
    let down = pump(from_server, to_client, faults.clone(), |faults| faults.to_client, second);
    tokio::select! {
        // An end of only one direction is a half-closed connection, which HTTP clients may use. Both directions must end.
        _ = async { tokio::join!(up, down) } => {}
        _ = faults.wait_for(|faults| faults.generation != generation) => {}
    }
}

/// Moves bytes in one direction until the end of the stream, each chunk after its delay.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    faults: watch::Receiver<Faults>,
    which: fn(&Faults) -> Delay,
    mut random: SeededRandom,
) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    let read = async move {
        let mut buffer = vec![0; 16 * 1024];
        let mut last = Instant::now();
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let delay = random.draw(which(&faults.borrow()));
            // Not before an earlier chunk: TCP keeps the order.
            last = last.max(Instant::now() + delay);
            let chunk = buffer.get(..length).unwrap_or_default().to_vec();
            if sender.send((last, chunk)).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

/// A small random generator (splitmix64). The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct SeededRandom(pub u64);

impl SeededRandom {
    /// Returns the next number.
    pub fn draw_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn draw(&mut self, delay: Delay) -> Duration {
        match delay {
            Delay::None => Duration::ZERO,
            Delay::Fixed(duration) => duration,
            Delay::Between(least, most) => {
                let span = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
                least + Duration::from_micros(self.draw_number() % span.saturating_add(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{millis, secs};

    /// Starts a server that sends back what it receives, with a proxy before it.
    async fn echo() -> (Proxy, JoinSet<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                open.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        (Proxy::start(port, 7).await.unwrap(), tasks)
    }

    async fn round_trip(stream: &mut TcpStream) -> std::io::Result<Duration> {
        let start = Instant::now();
        stream.write_all(b"ping").await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"ping");
        Ok(start.elapsed())
    }

    #[tokio::test]
    async fn both_directions_are_delayed_and_a_delay_can_be_removed() {
        let (proxy, _server) = echo().await;
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        proxy.delay(Delay::Fixed(millis(60)), Delay::Between(millis(40), millis(50)));
        assert!(round_trip(&mut stream).await.unwrap() >= millis(100));
        proxy.delay(Delay::None, Delay::None);
        // One may be slow by chance; with the delay all would be.
        let without = async { while round_trip(&mut stream).await.unwrap() >= millis(90) {} };
        assert!(tokio::time::timeout(secs(10), without).await.is_ok());
    }

    #[tokio::test]
    async fn a_cut_ends_open_connections_and_refusing_ends_new_ones() {
        let (proxy, _server) = echo().await;
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        round_trip(&mut stream).await.unwrap();
        proxy.cut();
        let ended = tokio::time::timeout(secs(5), async { while round_trip(&mut stream).await.is_ok() {} }).await;
        assert!(ended.is_ok());
        proxy.refuse(true);
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        assert!(round_trip(&mut stream).await.is_err());
        proxy.refuse(false);
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        round_trip(&mut stream).await.unwrap();
    }

    /// A test has one thread, which this one keeps busy as long as the bytes are under way.
    #[tokio::test]
    async fn a_runner_that_is_busy_delays_no_byte() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap().port(), 7).await.unwrap();
        std::thread::spawn(move || {
            let (mut server, _) = listener.accept().unwrap();
            let mut bytes = [0; 4];
            server.read_exact(&mut bytes).unwrap();
            server.write_all(&bytes).unwrap();
        });
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_read_timeout(Some(secs(10))).unwrap();
        let mut bytes = [0; 4];
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"ping");
    }

    #[test]
    fn the_same_seed_draws_the_same_delays_within_their_range() {
        let draw = |seed| {
            let mut random = SeededRandom(seed);
            (0..100).map(|_| random.draw(Delay::Between(millis(200), millis(500)))).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|each| (millis(200)..=millis(500)).contains(each)));
    }
}
