//! How does the API server reach the webhooks of an operator that runs as a process?
//!
//! In a cluster a Service leads to the operator's pod, and a kubelet mounts the Secret into which the operator has written its certificate.
//! Here the Services are names of this machine (`tools/operators.sh`), and this module does the kubelet's part:
//!
//! ```text
//! webhook configurations get the port ─▶ the operator starts ─▶ it writes its certificate into the Secret ─▶ the Secret becomes files ─▶ it serves
//! ```
//!
//! The operators serve the certificate of their temporary folder, which is a folder of the case. But they wait for a file in a folder that
//! is the same for all of them on a machine ([`AWAITED`]), so one operator starts after the other.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::programs::free_port;
use crate::wait::{Seen, secs, wait_until};

/// The operators serve when this file exists. They do not read it.
const AWAITED: &str = "/tmp/k8s-webhook-server/serving-certs/tls.crt";

/// How an operator learns the port of its webhooks.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// From this flag.
    Flag(&'static str),
    /// From a file: a Configuration of this API version.
    Configuration(&'static str),
}

/// What is to be known of an operator's webhooks.
#[derive(Clone, Copy, Debug)]
pub struct Webhooks {
    /// The Secret into which the operator writes its certificate, in the namespace of its ServiceAccount.
    pub secret: &'static str,
    /// How it learns the port.
    pub told: Told,
}

/// The webhooks of an operator that is about to start.
pub(super) struct Starting {
    /// The port of its health endpoint.
    pub(super) health: u16,
    /// The temporary folder of the operator.
    pub(super) temporary: PathBuf,
    /// Further flags of the operator.
    pub(super) flags: Vec<String>,
    secrets: Api<Secret>,
    secret: &'static str,
    /// No other operator starts while this one has no certificate.
    _alone: File,
}

impl Starting {
    /// Chooses ports, and tells the API server and the operator. `configuration` is further YAML of the operator's Configuration.
    pub(super) async fn new(cluster: &Cluster, namespace: &str, label: &str, webhooks: Webhooks, configuration: &str) -> Result<Self> {
        let alone = alone().await?;
        if Path::new(AWAITED).exists() {
            std::fs::remove_file(AWAITED).with_context(|| format!("removing {AWAITED} of another run"))?;
        }
        let (port, health) = (free_port()?, free_port()?);
        lead_here(&cluster.client(), namespace, port).await?;
        let temporary = cluster.scratch().path(format!("tmp-{label}"));
        std::fs::create_dir_all(certificates(&temporary))?;
        // Without a metrics endpoint, whose port is the same for all of them.
        let mut flags = vec![format!("--health-probe-bind-address=127.0.0.1:{health}"), "--metrics-bind-address=0".to_owned()];
        match webhooks.told {
            Told::Flag(flag) => flags.push(format!("{flag}={port}")),
            Told::Configuration(version) => {
                let webhook = json!({"port": port, "certDir": certificates(&temporary)});
                let text = format!(
                    "apiVersion: {version}\nkind: Configuration\nleaderElection: {{leaderElect: false}}\nwebhook: {webhook}\n{configuration}\n"
                );
                let file = cluster.scratch().path(format!("configuration-{label}.yaml"));
                std::fs::write(&file, text)?;
                flags.push(format!("--config={}", file.display()));
            }
        }
        let secrets = Api::namespaced(cluster.client(), namespace);
        Ok(Self { health, temporary, flags, secrets, secret: webhooks.secret, _alone: alone })
    }

    /// Waits until the operator has written its certificate, and gives it the files.
    pub(super) async fn mount(self) -> Result<()> {
        let data = wait_until(secs(60), &format!("the Secret {} has a certificate", self.secret), || async {
            let data = self.secrets.get(self.secret).await?.data.unwrap_or_default();
            Ok(if data.contains_key("tls.crt") { Seen::Yes(data) } else { Seen::NotYet(format!("{:?}", data.keys())) })
        })
        .await?;
        for (name, content) in data {
            std::fs::write(certificates(&self.temporary).join(name), content.0)?;
        }
        let awaited = Path::new(AWAITED);
        std::fs::create_dir_all(awaited.parent().unwrap_or(awaited))?;
        std::fs::write(awaited, "").with_context(|| format!("writing {AWAITED}"))
    }
}

/// Returns where an operator with this temporary folder looks for its certificate.
fn certificates(temporary: &Path) -> PathBuf {
    temporary.join("k8s-webhook-server/serving-certs")
}

/// Waits until no other operator on this machine starts. The lock ends with the file handle.
async fn alone() -> Result<File> {
    let lock = File::create(std::env::temp_dir().join("podgroup-e2e-webhooks.lock"))?;
    Ok(tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??)
}

/// Writes the port into the webhook configurations that name a Service of this namespace.
async fn lead_here(client: &Client, namespace: &str, port: u16) -> Result<()> {
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for mut configuration in api.list(&ListParams::default()).await? {
            let webhooks = configuration.data.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten();
            let services = webhooks.filter_map(|webhook| webhook.pointer_mut("/clientConfig/service").and_then(Value::as_object_mut));
            let mut changed = false;
            for service in services.filter(|service| service.get("namespace").is_some_and(|of| of == namespace)) {
                service.insert("port".to_owned(), json!(port));
                changed = true;
            }
            if changed {
                api.replace(&configuration.name_any(), &PostParams::default(), &configuration).await?;
            }
        }
    }
    Ok(())
}
