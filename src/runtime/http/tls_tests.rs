//! The certificate that a real TLS client sees, before and after the files change.

use super::*;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::os::unix::fs::symlink;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A folder with a certificate and its key, as a mounted Secret: `tls.crt` is reached through a symlink, which is swapped.
pub(in crate::runtime::http) struct Mount {
    folder: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.folder);
    }
}

impl Mount {
    pub(in crate::runtime::http) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("podgroup-tls-{name}-{}", std::process::id()));
        let _old = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), folder.join(file)).unwrap();
        }
        Self { folder }
    }

    pub(in crate::runtime::http) fn files(&self) -> CertificateFiles {
        CertificateFiles { certificate: self.folder.join("tls.crt"), key: self.folder.join("tls.key") }
    }

    /// Swaps the symlink to a folder with this content, as a kubelet does.
    fn put(&self, version: &str, certificate: &str, key: &str) {
        let data = self.folder.join(version);
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("tls.crt"), certificate).unwrap();
        fs::write(data.join("tls.key"), key).unwrap();
        let link = self.folder.join("..data_tmp");
        symlink(version, &link).unwrap();
        fs::rename(&link, self.folder.join("..data")).unwrap();
    }

    /// Makes a new certificate for `localhost`, which is its own authority.
    pub(in crate::runtime::http) fn make(&self, version: &str) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        self.put(version, &made.cert.pem(), &made.signing_key.serialize_pem());
        made.cert.der().clone()
    }
}

/// Makes a client that trusts these certificates only.
pub(in crate::runtime::http) fn client(
    trusted: &[&CertificateDer<'static>],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    trusted.iter().for_each(|each| roots.add((*each).clone()).unwrap());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(versions).unwrap().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Whether the server shows this certificate, to a client that trusts it alone.
async fn is_shown(config: &Arc<ServerConfig>, certificate: &CertificateDer<'static>) -> bool {
    let (here, there) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let both = [&rustls::version::TLS12, &rustls::version::TLS13];
    let client = client(&[certificate], &both);
    let (one, other) = tokio::join!(TlsAcceptor::from(Arc::clone(config)).accept(here), client.connect(name, there));
    one.is_ok() && other.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_swapped_certificate_is_used_and_a_broken_one_is_not() {
    let mount = Mount::new("swap");
    let first = mount.make("one");
    let (config, reload) = Certificate::new(Some(mount.files())).unwrap().parts();
    assert!(is_shown(&config, &first).await);

    let (trigger, stop) = Shutdown::new();
    let mut reload = Box::pin(reload.unwrap().run(&stop));
    let a_while = RELOAD_INTERVAL * 5 / 2;
    // The key is another's, as between two writes; then the files are gone for a moment.
    let own_key = fs::read_to_string(mount.files().key).unwrap();
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    mount.put("half", &stranger.cert.pem(), &own_key);
    assert!(tokio::time::timeout(a_while, &mut reload).await.is_err());
    assert!(is_shown(&config, &first).await);
    fs::remove_file(mount.folder.join("..data")).unwrap();
    assert!(tokio::time::timeout(a_while, &mut reload).await.is_err());
    assert!(is_shown(&config, &first).await);

    let second = mount.make("two");
    assert!(tokio::time::timeout(a_while, &mut reload).await.is_err());
    assert!(is_shown(&config, &second).await && !is_shown(&config, &first).await);
    trigger.trigger();
    reload.await;
}

#[test]
fn an_unusable_file_is_one_line_that_names_the_flag_and_the_file() {
    let mount = Mount::new("bad");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let huge = "x".repeat(usize::try_from(LARGEST).unwrap() + 1);
    for (name, certificate, key, flag, text) in [
        ("empty", "", key.as_str(), CERTIFICATE, "no certificate"),
        ("swapped", &key, &certificate, CERTIFICATE, "no certificate"),
        ("no-key", &certificate, "", KEY, "no private key"),
        ("huge", &huge, &key, CERTIFICATE, "larger than"),
        ("others-key", &certificate, &other.signing_key.serialize_pem(), KEY, "tls.crt"),
        ("no-der", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &key, CERTIFICATE, "tls.crt"),
    ] {
        mount.put(name, certificate, key);
        let error = Certificate::new(Some(mount.files())).err().expect(name).to_string();
        assert!(error.contains(flag) && error.contains(text) && !error.contains('\n'), "{name}: {error}");
    }
    let error = Certificate::new(Some(CertificateFiles { certificate: "/nowhere/tls.crt".into(), key: mount.files().key })).err().unwrap();
    assert!(error.to_string().starts_with("--tls-cert-file /nowhere/tls.crt: "), "{error}");
}

#[test]
fn without_files_there_is_a_certificate_and_it_is_never_read_again() {
    let (config, reload) = Certificate::new(None).unwrap().parts();
    assert!(reload.is_none());
    assert_eq!(config.alpn_protocols, [b"http/1.1".to_vec()]);
}
