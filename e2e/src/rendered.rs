//! Starts a program as a kubelet would start the chart's Deployment: with the rendered arguments, variables, files and probes, as a local process.
//!
//! Only what needs a node is replaced: the image by the built program, the port by a free one, a Secret's mount by a folder with its files, the
//! mounted token by a kubeconfig with a token of the pod's ServiceAccount. Anything that a kubelet could not start (an unknown port name, a missing
//! Secret), or that this module cannot start (another kind of volume), is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, Probe, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, ResourceExt};

use crate::cluster::Cluster;
use crate::https::Https;
use crate::programs::{self, Program, free_port};
use crate::wait::{Seen, secs, wait_until};
use crate::{chart, http, kubeconfig, rights};

/// A program that runs as its Deployment says.
pub struct Rendered {
    /// Its process.
    pub program: Program,
    /// The names of the rendered flags.
    pub flags: Vec<String>,
    name: String,
    labels: BTreeMap<String, String>,
    ports: Vec<ContainerPort>,
    /// The port in `--http-address`; the process uses another one.
    served: i32,
    /// The paths of the liveness and the readiness probe.
    probes: [String; 2],
    secure: bool,
}

impl Rendered {
    /// Starts the chart's Deployment `name` once its rights are in force. `label` is the name of its pod and of its log.
    pub async fn start(cluster: &Cluster, name: &str, label: &str) -> Result<Self> {
        Self::start_from(cluster, &programs::folder()?, name, label).await
    }

    /// Does the same with the programs of this folder.
    pub async fn start_from(cluster: &Cluster, folder: &Path, name: &str, label: &str) -> Result<Self> {
        let client = cluster.client();
        let deployment = Api::<Deployment>::namespaced(client.clone(), chart::NAMESPACE).get(name).await?;
        let template = deployment.spec.context("a Deployment has a spec")?.template;
        let pod = template.spec.context("a template has a spec")?;
        let account = pod.service_account_name.clone().context("the template has no ServiceAccount")?;
        ensure!(pod.automount_service_account_token == Some(true), "the pod of {name} gets no token");
        let [container] = pod.containers.as_slice() else { bail!("{name} must have exactly one container") };
        let program = match container.command.iter().flatten().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["/podgroup-controller"] => chart::CONTROLLER,
            ["/podgroup-scheduler"] => chart::SCHEDULER,
            other => bail!("the program {other:?} is not built"),
        };
        let port = free_port()?;
        let mounts = mounts(cluster, &pod, container, label).await?;
        let (arguments, served) = arguments(container, &mounts, port)?;
        let flags = arguments.iter().map(|each| each.split_once('=').map_or(each.as_str(), |(flag, _)| flag).to_owned()).collect();
        let ports = container.ports.clone().unwrap_or_default();
        let (live, lives_secure) = probe(container.liveness_probe.as_ref(), &ports, served).context("the liveness probe")?;
        let (ready, secure) = probe(container.readiness_probe.as_ref(), &ports, served).context("the readiness probe")?;
        ensure!(lives_secure == secure, "one probe uses TLS and the other does not");
        rights::known(&client, &account).await?;
        let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
        let kubeconfig = chart::kubeconfig_as(cluster, &account, label, server, &authority).await?;
        let mut environment = vec![("HOSTNAME".to_owned(), label.to_owned()), ("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
        for variable in container.env.iter().flatten() {
            environment.push((variable.name.clone(), variable.value.clone().context("the variable has no value")?));
        }
        let program = Program::exactly(cluster.scratch(), folder, program, label, arguments, &environment, port)?;
        let labels = template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
        Ok(Self { program, flags, name: name.to_owned(), labels, ports, served, probes: [live, ready], secure })
    }

    /// Waits until both probes succeed.
    pub async fn wait_ready(&mut self) -> Result<()> {
        for path in self.probes.clone() {
            let (port, secure, what) = (self.program.port(), self.secure, format!("{} answers its probe of {path}", self.name));
            let answered = wait_until(secs(30), &what, || async {
                let (status, body) = get(port, secure, &path, None).await?;
                Ok(Seen::when((200..400).contains(&status), || format!("{status}: {}", body.trim())))
            });
            self.program.unless_it_ends(answered).await?;
        }
        Ok(())
    }

    /// Returns status and body of a GET, with TLS if the probes use it.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        get(self.program.port(), self.secure, path, token).await
    }

    /// Returns the response to a Prometheus that finds the program by the annotations of its Service and passes its NetworkPolicy.
    pub async fn scraped(&self, cluster: &Cluster, token: Option<&str>) -> Result<(u16, String)> {
        let client = cluster.client();
        let policy = Api::<NetworkPolicy>::namespaced(client.clone(), chart::NAMESPACE).get(&self.name).await?;
        let policy = policy.spec.context("a NetworkPolicy has a spec")?;
        self.is_selected(policy.pod_selector.and_then(|selector| selector.match_labels), "NetworkPolicy")?;
        let mut open = policy.ingress.iter().flatten().flat_map(|rule| rule.ports.iter().flatten()).filter_map(|port| port.port.as_ref());
        ensure!(open.any(|port| number(port, &self.ports) == Some(self.served)), "the NetworkPolicy of {} closes its port", self.name);

        let service = Api::<Service>::namespaced(client, chart::NAMESPACE).get(&self.name).await?;
        let spec = service.spec.clone().context("a Service has a spec")?;
        self.is_selected(spec.selector, "Service")?;
        let note = |key: &str| service.annotations().get(&format!("prometheus.io/{key}")).map(String::as_str);
        let scraped = spec.ports.iter().flatten().find(|port| note("port") == Some(port.port.to_string().as_str()));
        let target = scraped.and_then(|port| port.target_port.as_ref()).and_then(|port| number(port, &self.ports));
        ensure!(target == Some(self.served), "the target port of the Service of {} is {target:?}, expected {}", self.name, self.served);
        let secure = note("scheme") == Some("https");
        get(self.program.port(), secure, note("path").context("the annotation for the path is missing")?, token).await
    }

    fn is_selected(&self, selector: Option<BTreeMap<String, String>>, by: &str) -> Result<()> {
        let selector = selector.unwrap_or_default();
        let selected = !selector.is_empty() && selector.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        ensure!(selected, "the {by} of {} selects {selector:?}, but the labels of the pod are {:?}", self.name, self.labels);
        Ok(())
    }

    /// Returns its log so far.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.program.log())?)
    }

    /// See [`Program::terminate`].
    pub async fn end(mut self) -> Result<()> {
        self.program.terminate().await
    }
}

async fn get(port: u16, secure: bool, path: &str, token: Option<&str>) -> Result<(u16, String)> {
    match secure {
        true => Https::trusting_all()?.get(port, path, token).await,
        false => http::get(port, path).await,
    }
}

/// Returns the mounts: the folder in the container, and the local folder.
async fn mounts(cluster: &Cluster, pod: &PodSpec, container: &Container, label: &str) -> Result<Vec<(String, PathBuf)>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), chart::NAMESPACE);
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name).context("the mount has no volume")?;
        let name = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_ref()).context("the volume is not a Secret")?;
        let folder = cluster.scratch().path(format!("{label}-{}", mount.name));
        std::fs::create_dir_all(&folder)?;
        for (file, content) in secrets.get(name).await.with_context(|| format!("the Secret {name}"))?.data.unwrap_or_default() {
            std::fs::write(folder.join(file), content.0)?;
        }
        mounts.push((mount.mount_path.clone(), folder));
    }
    Ok(mounts)
}

/// Returns the arguments with local paths and the local port, and the port that the container serves.
fn arguments(container: &Container, mounts: &[(String, PathBuf)], port: u16) -> Result<(Vec<String>, i32)> {
    let mut served = None;
    let mut all = Vec::new();
    for argument in container.args.iter().flatten() {
        let (flag, value) = argument.split_once('=').unwrap_or((argument, ""));
        let mounted = mounts.iter().find_map(|(at, folder)| Some(folder.join(value.strip_prefix(at)?.strip_prefix('/')?)));
        all.push(match (flag, mounted) {
            ("--http-address", _) => {
                let (host, rendered) = value.rsplit_once(':').context("the address has no port")?;
                served = Some(rendered.parse()?);
                format!("{flag}={host}:{port}")
            }
            (_, Some(file)) => format!("{flag}={}", file.display()),
            (_, None) => argument.clone(),
        });
    }
    Ok((all, served.context("the arguments contain no --http-address")?))
}

/// Returns the path of a probe, and whether it uses TLS. It must use the served port.
fn probe(probe: Option<&Probe>, ports: &[ContainerPort], served: i32) -> Result<(String, bool)> {
    let get = probe.and_then(|probe| probe.http_get.as_ref()).context("the probe is missing")?;
    let asked = number(&get.port, ports);
    ensure!(asked == Some(served), "the probe uses port {asked:?}, but the program serves {served}");
    Ok((get.path.clone().unwrap_or_default(), get.scheme.as_deref() == Some("HTTPS")))
}

/// Returns the number of a port that may be given by name.
fn number(port: &IntOrString, ports: &[ContainerPort]) -> Option<i32> {
    match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => Some(ports.iter().find(|port| port.name.as_ref() == Some(name))?.container_port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(value: serde_json::Value) -> Container {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_the_port_and_mounted_files_are_replaced() {
        let rendered = container(json!({"name": "c", "args": [
            "--a", "--leader-elect=true", "--http-address=[::]:8080", "--tls-cert-file=/certificate/tls.crt", "--name=/certificates", "--x=y=z",
        ]}));
        let mounts = [("/certificate".to_owned(), PathBuf::from("/here"))];
        let (arguments, served) = arguments(&rendered, &mounts, 20_001).unwrap();
        let wanted =
            ["--a", "--leader-elect=true", "--http-address=[::]:20001", "--tls-cert-file=/here/tls.crt", "--name=/certificates", "--x=y=z"];
        assert_eq!((arguments, served), (wanted.map(str::to_owned).to_vec(), 8080));
    }

    #[test]
    fn a_probe_of_a_port_that_is_not_served_is_an_error() {
        let rendered = container(json!({
            "name": "c", "ports": [{"name": "http", "containerPort": 8080}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTPS"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}},
        }));
        let ports = rendered.ports.clone().unwrap();
        assert_eq!(probe(rendered.liveness_probe.as_ref(), &ports, 8080).unwrap(), ("/healthz".to_owned(), true));
        assert!(probe(rendered.readiness_probe.as_ref(), &ports, 8080).is_err());
        assert!(probe(None, &ports, 8080).is_err());
    }
}
