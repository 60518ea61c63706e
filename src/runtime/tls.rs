//! Which certificate does the HTTP server show?
//!
//! That of `--tls-cert-file` and `--tls-private-key-file`, read again every [`LOOK`]: a Secret that is mounted changes by the swap of a symlink, so it is
//! the content that is compared, and no file is watched. A pair that cannot be used (half of it is written, the key is another's) is said once, and the
//! one before it stays. Without files: one that this process signs for itself at its start. It encrypts, and says nothing about who this is.
//!
//! TLS 1.2 and 1.3, with the cryptography that the Kubernetes client has chosen.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::sync::watch;

use super::call::bounded;
use super::shutdown::Shutdown;

/// How often the files are looked at. A kubelet needs a minute or so to bring a changed Secret to its mount; this adds nothing that counts to it.
const LOOK: Duration = Duration::from_secs(5);

/// A chain of certificates has a few thousand bytes.
const LARGEST: u64 = 1 << 20;

/// Why there is no certificate to show.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{flag} {path}: {reason}")]
    File {
        /// Which flag named it.
        flag: &'static str,
        /// What it named.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Each is what it should be, but they are not a pair.
    #[error("--tls-cert-file {certificate} and --tls-private-key-file {key}: {reason}")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The library refused; nothing that a user can do brings this about.
    #[error("TLS cannot be used: {0}")]
    Library(String),
}

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, and those that lead from it to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What is shown, and from where it is read again.
pub struct Certificate {
    config: Arc<ServerConfig>,
    reload: Option<Reload>,
}

impl Certificate {
    /// Reads the files, or makes a certificate where there are none.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(files: Option<Files>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let (pair, read) = match files {
            Some(files) => {
                let read = Pair::of(&files)?;
                (read.parse(&files, &provider)?, Some((files, read)))
            }
            None => (self_signed(&provider)?, None),
        };
        let (show, shown) = watch::channel(Arc::new(pair));
        let library = |error: rustls::Error| TlsError::Library(error.to_string());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().map_err(library)?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(Shown(shown)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let reload = read.map(|(files, read)| Reload { files, read, show, provider, said: String::new() });
        Ok(Self { config: Arc::new(config), reload })
    }

    /// What the server needs, and what is to be run beside it.
    pub(super) fn parts(self) -> (Arc<ServerConfig>, Option<Reload>) {
        (self.config, self.reload)
    }
}

#[derive(Debug)]
struct Shown(watch::Receiver<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.borrow()))
    }
}

/// Looks at the files again and again.
pub(super) struct Reload {
    files: Files,
    read: Pair,
    show: watch::Sender<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
    said: String,
}

impl Reload {
    /// Until `stop`.
    pub(super) async fn run(mut self, stop: &Shutdown) {
        while stop.unless(tokio::time::sleep(LOOK)).await.is_some() {
            let files = self.files.clone();
            // A thread of its own: a mount that hangs must hold up nobody.
            if let Ok(read) = tokio::task::spawn_blocking(move || Pair::of(&files)).await {
                self.look(read);
            }
        }
    }

    fn look(&mut self, read: Result<Pair, TlsError>) {
        let changed = match read {
            Ok(read) if read == self.read => return self.said.clear(),
            Ok(read) => read.parse(&self.files, &self.provider).map(|pair| (read, pair)),
            Err(error) => Err(error),
        };
        match changed {
            Ok((read, pair)) => {
                self.read = read;
                self.said.clear();
                self.show.send_replace(Arc::new(pair));
                tracing::info!(certificate = %self.files.certificate.display(), "the certificate has changed and is shown from now on");
            }
            Err(error) => {
                let why = error.to_string();
                if why != self.said {
                    tracing::error!("{why}; the certificate that was read before is still shown, and the files are read again");
                    self.said = why;
                }
            }
        }
    }
}

/// Both files as they were read. Not the same moment: that they belong together is seen when they are parsed.
#[derive(PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn of(files: &Files) -> Result<Self, TlsError> {
        let read = |flag, path: &Path| content(path).map_err(|error| fault(flag, path, &error));
        Ok(Self { certificate: read(CERTIFICATE, &files.certificate)?, key: read(KEY, &files.key)? })
    }

    fn parse(&self, files: &Files, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| fault(CERTIFICATE, &files.certificate, &error))?;
        if chain.is_empty() {
            return Err(fault(CERTIFICATE, &files.certificate, &"there is no certificate in it (PEM, BEGIN CERTIFICATE)"));
        }
        // The library's error does not show the key, but it might one day show what it could not read.
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_error| fault(KEY, &files.key, &"there is no private key in it (PEM, BEGIN PRIVATE KEY)"))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| TlsError::Pair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            reason: bounded(&error.to_string()),
        })
    }
}

const CERTIFICATE: &str = "--tls-cert-file";
const KEY: &str = "--tls-private-key-file";

fn fault(flag: &'static str, path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { flag, path: path.to_owned(), reason: bounded(&reason.to_string()) }
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    Ok(bytes)
}

fn self_signed(provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let library = |error: rcgen::Error| TlsError::Library(error.to_string());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "podgroup".to_owned()]).map_err(library)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    CertifiedKey::from_der(vec![made.cert.der().clone()], key.into(), provider).map_err(|error| TlsError::Library(error.to_string()))
}

#[cfg(test)]
#[path = "tls_tests.rs"]
pub(super) mod tests;
