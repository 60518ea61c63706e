//! Provides the certificate of the HTTP server.
//!
//! With `--tls-cert-file` and `--tls-private-key-file` the files are read again every [`RELOAD_INTERVAL`]. The contents are compared and no
//! file is watched, because a mounted Secret changes by the swap of a symlink. An unusable pair (half written, or a key of another
//! certificate) is logged once, and the previous certificate stays. Without files the process signs a certificate itself at its start. That
//! one encrypts, but proves no identity.
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

use crate::runtime::call::bounded;
use crate::runtime::shutdown::Shutdown;

/// How often the files are read. A kubelet needs about a minute to update a mounted Secret; this adds little.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The limit of a file, in bytes. A chain of certificates has a few thousand.
const LARGEST: u64 = 1 << 20;

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or has the wrong content.
    #[error("{flag} {path}: {reason}")]
    File {
        /// The flag that named it.
        flag: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Each file is valid, but they are not a pair.
    #[error("--tls-cert-file {certificate} and --tls-private-key-file {key}: {reason}")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why they do not match.
        reason: String,
    },
    /// The library refused; no setting of a user causes this.
    #[error("TLS cannot be used: {0}")]
    Library(String),
}

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and the chain from it to its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A certificate, and the files that it is read from again.
pub struct Certificate {
    config: Arc<ServerConfig>,
    reload: Option<Reload>,
}

impl Certificate {
    /// Reads the files, or makes a self-signed certificate without files.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(files: Option<CertificateFiles>) -> Result<Self, TlsError> {
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
        let reload = read.map(|(files, read)| Reload { files, read, show, provider, logged: String::new() });
        Ok(Self { config: Arc::new(config), reload })
    }

    /// Returns the configuration of the server, and the reload task, if there are files.
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

/// Reads the files again and again.
pub(super) struct Reload {
    files: CertificateFiles,
    read: Pair,
    show: watch::Sender<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
    logged: String,
}

impl Reload {
    /// Runs until `stop`.
    pub(super) async fn run(mut self, stop: &Shutdown) {
        while stop.unless(tokio::time::sleep(RELOAD_INTERVAL)).await.is_some() {
            let files = self.files.clone();
            // In a thread of its own: a mount that hangs must delay no other task.
            if let Ok(read) = tokio::task::spawn_blocking(move || Pair::of(&files)).await {
                self.update(read);
            }
        }
    }

    fn update(&mut self, read: Result<Pair, TlsError>) {
        let changed = match read {
            Ok(read) if read == self.read => return self.logged.clear(),
            Ok(read) => read.parse(&self.files, &self.provider).map(|pair| (read, pair)),
            Err(error) => Err(error),
        };
        match changed {
            Ok((read, pair)) => {
                self.read = read;
                self.logged.clear();
                self.show.send_replace(Arc::new(pair));
                tracing::info!(certificate = %self.files.certificate.display(), "the certificate has changed and is used from now on");
            }
            Err(error) => {
                let why = error.to_string();
                if why != self.logged {
                    tracing::error!("{why}; the previous certificate is still used, and the files are read again");
                    self.logged = why;
                }
            }
        }
    }
}

/// Both files as they were read. They are not read at the same moment; whether they match is checked when they are parsed.
#[derive(PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn of(files: &CertificateFiles) -> Result<Self, TlsError> {
        let read = |flag, path: &Path| content(path).map_err(|error| fault(flag, path, &error));
        Ok(Self { certificate: read(CERTIFICATE, &files.certificate)?, key: read(KEY, &files.key)? })
    }

    fn parse(&self, files: &CertificateFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| fault(CERTIFICATE, &files.certificate, &error))?;
        if chain.is_empty() {
            return Err(fault(CERTIFICATE, &files.certificate, &"the file contains no certificate (PEM, BEGIN CERTIFICATE)"));
        }
        // The library's error does not contain the key today, but a later version might quote what it could not read.
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_error| fault(KEY, &files.key, &"the file contains no private key (PEM, BEGIN PRIVATE KEY)"))?;
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
        return Err(io::Error::other(format!("the file is larger than {LARGEST} bytes")));
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
