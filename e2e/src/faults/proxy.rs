//! The door: who may come in, and where does it lead?

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
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use super::carry::carry;
use super::control::{Control, Rule};
use super::ledger::Counts;
use super::mix::Mix;

/// A running fault proxy; dropping it closes its port, every connection and every request that is held up.
pub struct HttpProxy {
    port: u16,
    authority: PathBuf,
    control: Arc<Control>,
    _tasks: JoinSet<()>,
}

impl HttpProxy {
    /// Listens on a free port of this machine and passes everything on to the API server of `kubeconfig`, at `server` (a port of this machine: the API server's own, or
    /// that of another proxy before it). Certificate and record are written to `folder`, as `faults-NAME.pem` and `faults-NAME.log`.
    pub async fn start(kubeconfig: &Path, server: u16, folder: &Path, name: &str) -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let authority = folder.join(format!("faults-{name}.pem"));
        std::fs::write(&authority, cert.pem()).with_context(|| format!("writing {}", authority.display()))?;
        let tls = tls(cert.der().to_vec(), &signing_key)?;
        let server = anonymous(kubeconfig, server).await?;
        let control = Arc::new(Control::new(&folder.join(format!("faults-{name}.log")))?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, tls, Arc::clone(&control), server));
        Ok(Self { port, authority, control, _tasks: tasks })
    }

    /// Where to connect to, with TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whom a client must trust.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// From now on this happens, before what earlier rules and any mix say of other requests.
    pub fn rule(&self, rule: Rule) {
        self.control.add_rule(rule);
    }

    /// From now on this mix is on.
    pub fn begin(&self, mix: Mix) {
        self.control.begin(mix);
    }

    /// Ends the mix; returns when nothing of it is left: requests that were held up have landed, events that were held back are on their way, and every
    /// `Retry-After` has run out (half a minute at most; nobody needs to believe more).
    pub async fn calm(&self) -> Result<()> {
        self.control.calm().await
    }

    /// What was injected so far.
    pub fn counts(&self) -> Counts {
        self.control.ledger.counts()
    }
}

/// A client without any rights of its own: every request brings those of its program.
async fn anonymous(kubeconfig: &Path, port: u16) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
    config.auth_info = kube::config::AuthInfo::default();
    // What the API server says is passed on as it is: nothing is repeated here.
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
    // One request at a time per connection, so that cutting it hits no other.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, control: Arc<Control>, server: Client) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((client, _)) = listener.accept().await else { continue };
        connections.spawn(serve(client, tls.clone(), Arc::clone(&control), server.clone()));
    }
}

async fn serve(client: TcpStream, tls: TlsAcceptor, control: Arc<Control>, server: Client) {
    // Without this the proxy itself would be a fault: small writes would wait for each other's acknowledgement.
    let _ = client.set_nodelay(true);
    let Ok(client) = tls.accept(client).await else { return };
    let service = service_fn(|request| carry(request, Arc::clone(&control), server.clone()));
    // An error here is the end of a connection, and an end is what a fault, or the program, wanted.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
}
