//! The listener of the fault proxy: accepts connections, terminates TLS and forwards to one API server.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use super::carry::carry;
use super::control::{Control, Rule, Told};
use super::cut_after::CutAfter;
use super::ledger::Counts;
use super::mix::Mix;
use crate::proxy::next_client;

/// A running fault proxy. Dropping it closes its port, every connection and every delayed request.
pub struct HttpProxy {
    port: u16,
    authority: PathBuf,
    control: Arc<Control>,
    /// `None` only while the proxy is dropped.
    runtime: Option<Runtime>,
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime waits, which is not allowed where worlds are dropped.
            runtime.shutdown_background();
        }
    }
}

impl HttpProxy {
    /// Listens on a free local port and forwards to the API server of `kubeconfig` at the local port `server`. This is the port of the API server
    /// or of another proxy before it. Certificate and record are written to `folder`, as `faults-NAME.pem` and `faults-NAME.log`.
    pub async fn start(kubeconfig: &Path, server: u16, folder: &Path, name: &str) -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let authority = folder.join(format!("faults-{name}.pem"));
        std::fs::write(&authority, cert.pem()).with_context(|| format!("writing {}", authority.display()))?;
        let tls = tls(cert.der().to_vec(), &signing_key)?;
        let control = Arc::new(Control::new(&folder.join(format!("faults-{name}.log")))?);
        // The proxy has its own thread: a busy harness must not add a delay that is not counted. On a busy machine such a delay once lost a Lease.
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("faults").enable_all().build()?;
        let (kubeconfig, shared) = (kubeconfig.to_owned(), Arc::clone(&control));
        let (port_is, port) = oneshot::channel();
        let serving = runtime.spawn(async move {
            let server = anonymous(&kubeconfig, server).await?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let _ = port_is.send(listener.local_addr()?.port());
            accept(listener, tls, shared, server).await;
            anyhow::Ok(())
        });
        let Ok(port) = port.await else {
            serving.await??;
            anyhow::bail!("the fault proxy ended during its start");
        };
        Ok(Self { port, authority, control, runtime: Some(runtime) })
    }

    /// Returns the local port of the proxy, for connections with TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the file with the certificate that a client must trust.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// Adds a rule. It comes after earlier rules and before any mix.
    pub fn rule(&self, rule: Rule) {
        self.control.add_rule(rule);
    }

    /// Lets the requests go that are held at this moment. Returns how many were held or delayed.
    pub fn release(&self) -> usize {
        self.control.release()
    }

    /// Lets so many writes through (not those of Events and Leases). The next one and every request after it is cut, as if the program had
    /// died there.
    pub fn cut_after(&self, writes: u32) {
        self.control.cut_after(|cut| cut.set(writes));
    }

    /// Returns whether a request was cut for [`Self::cut_after`].
    pub fn is_cut(&self) -> bool {
        self.control.cut_after(|cut| cut.is_blown())
    }

    /// Ends [`Self::cut_after`]. Returns how many writes passed since.
    pub fn cut_no_more(&self) -> u32 {
        self.control.cut_after(CutAfter::take_out)
    }

    /// Starts a mix. `told` is called when it makes a client obey a long `Retry-After`.
    pub fn begin(&self, mix: Mix, told: Told) {
        self.control.begin(mix, told);
    }

    /// Ends the mix and waits until none of its faults is left: delayed requests have arrived, events that were held back are sent, and every
    /// `Retry-After` has ended (after half a minute at most).
    pub async fn end_faults(&self) -> Result<()> {
        self.control.end_faults().await
    }

    /// Says whether a mix was started here.
    pub fn mixed(&self) -> bool {
        self.control.mixed()
    }

    /// Returns the kinds that the mix has dealt so often that they must have been injected.
    pub fn due(&self) -> BTreeSet<&'static str> {
        self.control.due()
    }

    /// Describes the faults that rules ordered and that were never injected.
    pub fn never_injected(&self) -> Vec<String> {
        self.control.never_injected()
    }

    /// Returns the counts of the injected faults so far.
    pub fn counts(&self) -> Counts {
        self.control.ledger.counts()
    }
}

/// Returns a client without credentials. Every request brings the credentials of its program.
async fn anonymous(kubeconfig: &Path, port: u16) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
    config.auth_info = kube::config::AuthInfo::default();
    // The response of the API server is passed on unchanged, so the proxy must not retry.
    config.default_retry = false;
    config.read_timeout = None;
    Ok(Client::try_from(config)?)
}

fn tls(certificate: Vec<u8>, key: &KeyPair) -> Result<TlsAcceptor> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], key)?;
    // HTTP/1.1 has one request at a time on a connection, so a cut affects no other request.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, control: Arc<Control>, server: Client) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let client = next_client(&listener).await;
        connections.spawn(serve(client, tls.clone(), Arc::clone(&control), server.clone()));
    }
}

async fn serve(client: TcpStream, tls: TlsAcceptor, control: Arc<Control>, server: Client) {
    // Without this the proxy itself would add delays: small writes would wait for each other's acknowledgement.
    let _ = client.set_nodelay(true);
    let Ok(client) = tls.accept(client).await else { return };
    let service = service_fn(|request| carry(request, Arc::clone(&control), server.clone()));
    // An error is the end of a connection, which a fault or the program caused.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
}
