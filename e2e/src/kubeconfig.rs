//! Writes kubeconfigs and creates clients: the user, and the port of the API server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

/// Writes a kubeconfig with a ServiceAccount's token for the local port `port`. The port may be that of a proxy: the certificate of the API
/// server names 127.0.0.1, so TLS passes through a proxy. The file is JSON, which is valid YAML.
pub fn write(file: &Path, port: u16, authority: &Path, token: &str, namespace: &str) -> Result<()> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": authority,
        }}],
        "users": [{"name": "e2e", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e", "namespace": namespace}}],
    });
    std::fs::write(file, serde_json::to_vec_pretty(&content)?).with_context(|| format!("writing {}", file.display()))
}

/// Creates a client with the user of a kubeconfig.
pub async fn client(file: &Path) -> Result<kube::Client> {
    client_of(file, None).await
}

/// Creates a client that impersonates `user`, so that the API server's authorizer decides. The kubeconfig's user must have the right to impersonate.
pub async fn client_as(file: &Path, user: &str) -> Result<kube::Client> {
    client_of(file, Some(user)).await
}

async fn client_of(file: &Path, user: Option<&str>) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(file)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = user.map(str::to_owned);
    // A request that hangs must end the case's wait with a reason, instead of the whole case.
    config.read_timeout = Some(std::time::Duration::from_secs(300));
    Ok(kube::Client::try_from(config)?)
}

/// Returns the port of the API server and the file of its certificate authority, from the kubeconfig of kwokctl.
pub fn door(file: &Path) -> Result<(u16, PathBuf)> {
    let kubeconfig = Kubeconfig::read_from(file)?;
    let cluster =
        kubeconfig.clusters.into_iter().find_map(|each| each.cluster).with_context(|| format!("no cluster in {}", file.display()))?;
    let server = cluster.server.context("no server")?;
    let port = server.rsplit(':').next().and_then(|port| port.parse().ok()).with_context(|| format!("no port in {server}"))?;
    Ok((port, PathBuf::from(cluster.certificate_authority.context("no certificate authority")?)))
}
