//! An HTTPS client for the programs' own port, which trusts one certificate and may send a token. See also [`crate::http`].

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, crypto::ring};

use crate::chart;
use crate::http::exchange;

/// The Service name in the certificates, of a release with another name.
pub const SERVICE: &str = "blue-podgroup-scheduler";

/// The timeout of a request: that of [`crate::http`] plus a handshake.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A client that trusts exactly one certificate, or any.
#[derive(Clone)]
pub struct Https(TlsConnector);

impl Https {
    /// Creates a client that trusts this certificate.
    pub fn trusting(certificate: &CertificateDer<'static>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        // A resumed session would not show the certificate.
        config.resumption = Resumption::disabled();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Creates a client that trusts every certificate, as a kubelet's probe does.
    pub fn trusting_all() -> Result<Self> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions()?;
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny)).with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Returns status and body of `GET path` at `localhost:port`.
    pub async fn get(&self, port: u16, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        self.get_at((Ipv4Addr::LOCALHOST, port).into(), path, token).await
    }

    /// Does the same at another address. The name in the certificate is still `localhost`.
    pub async fn get_at(&self, address: SocketAddr, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        timeout(TIMEOUT, async {
            let stream = TcpStream::connect(address).await?;
            let stream = self.0.connect(ServerName::try_from("localhost")?, stream).await?;
            let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
            exchange(stream, path, &format!("Host: localhost\r\n{token}")).await
        })
        .await
        .with_context(|| format!("no response from {address} to GET {path} over TLS"))?
        .with_context(|| format!("GET {path} at {address} over TLS"))
    }
}

/// A verifier that accepts every certificate.
#[derive(Debug)]
struct AcceptAny;

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A folder like a Secret's volume: its files are links through one symlink, which is replaced.
pub struct Mount {
    folder: PathBuf,
}

impl Mount {
    /// Creates an empty mount.
    pub fn new(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        for file in ["tls.crt", "tls.key"] {
            std::os::unix::fs::symlink(Path::new("..data").join(file), folder.join(file))?;
        }
        Ok(Self { folder })
    }

    /// Returns the flags for the certificate and its key.
    pub fn flags(&self) -> [String; 2] {
        let file = |flag, name| format!("--{flag}={}", self.folder.join(name).display());
        [file("tls-cert-file", "tls.crt"), file("tls-private-key-file", "tls.key")]
    }

    /// Replaces the certificate by a new self-signed one for `localhost` and [`SERVICE`].
    pub fn swap(&self, version: &str) -> Result<CertificateDer<'static>> {
        let names = ["localhost".to_owned(), format!("{SERVICE}.{}.svc", chart::NAMESPACE)];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        let data = self.folder.join(version);
        std::fs::create_dir_all(&data)?;
        std::fs::write(data.join("tls.crt"), cert.pem())?;
        std::fs::write(data.join("tls.key"), signing_key.serialize_pem())?;
        let link = self.folder.join("..data_tmp");
        std::os::unix::fs::symlink(version, &link)?;
        std::fs::rename(&link, self.folder.join("..data"))?;
        Ok(cert.der().clone())
    }
}
