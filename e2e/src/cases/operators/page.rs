//! What does a page of docs/integrations tell its reader to do, and is its manifest the example of the project?

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kit;
use crate::operator::{Operator, path};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::MIN_MEMBER;

/// One page of docs/integrations.
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Reads the page with this name.
    pub(super) fn read(name: &str) -> Result<Self> {
        let text = std::fs::read_to_string(kit::repository().join(format!("docs/integrations/{name}.md")))?;
        Ok(Self { text })
    }

    /// Fails unless the page says that the programs serve this name, too.
    pub(super) fn serves(&self, scheduler: &str) -> Result<()> {
        let served = format!("--set 'schedulerNames={{podgroup-scheduler,{scheduler}}}'");
        ensure!(self.text.contains(&served), "the page does not say {served}");
        Ok(())
    }

    /// Returns the first code after these words.
    pub(super) fn code_after(&self, words: &str) -> Result<&str> {
        let code = self.text.split_once(words).and_then(|(_, rest)| rest.split('`').nth(1));
        code.with_context(|| format!("the page has no code after {words:?}"))
    }

    /// Returns the flags with which a user starts the operator.
    pub(super) fn flags(&self) -> Result<Vec<String>> {
        Ok(self.code_after("Start the operator with ")?.split_whitespace().map(str::to_owned).collect())
    }

    /// Returns the file that the page names after these words.
    pub(super) fn file_after(&self, words: &str) -> Result<String> {
        Ok(path(&kit::repository().join(self.code_after(words)?))?.to_owned())
    }

    /// Applies the manifest that the page names. Webhooks of an operator that has just started may not answer yet.
    pub(super) async fn apply(&self, cluster: &Cluster) -> Result<()> {
        apply(cluster, &self.file_after("Apply ")?).await
    }
}

/// Applies a file, as soon as webhooks let it.
pub(super) async fn apply(cluster: &Cluster, file: &str) -> Result<()> {
    wait_until(secs(20), &format!("{file} is applied"), || async {
        cluster.run("kubectl", &["apply", "--server-side", "--filename", file]).await?;
        Ok(Seen::Yes(()))
    })
    .await
}

/// Returns the object of this kind in a file, as the API server reads it.
async fn object_in(cluster: &Cluster, file: &str, kind: &str) -> Result<Value> {
    let text = cluster.run("kubectl", &["create", "--dry-run=client", "--output=json", "--filename", file]).await?;
    for object in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let object = object?;
        if object.get("kind").is_some_and(|found| found == kind) {
            return Ok(object);
        }
    }
    bail!("{file} has no {kind}")
}

/// Returns name, annotations and spec of that object.
pub(super) async fn as_read(cluster: &Cluster, file: &str, kind: &str) -> Result<Value> {
    let object = object_in(cluster, file, kind).await?;
    let metadata = |name: &str| object.pointer(&format!("/metadata/{name}"));
    Ok(json!({"name": metadata("name"), "annotations": metadata("annotations"), "spec": object.get("spec")}))
}

/// Writes the object of this kind in a file into another file, with these values at these places. Returns that file.
pub(super) async fn variant(cluster: &Cluster, file: &str, kind: &str, edits: &[(&str, Value)]) -> Result<String> {
    let mut object = object_in(cluster, file, kind).await?;
    for (place, value) in edits {
        *object.pointer_mut(place).with_context(|| format!("{file} has no {place}"))? = value.clone();
    }
    let file = cluster.scratch().path(format!("variant-{kind}.json"));
    std::fs::write(&file, object.to_string())?;
    Ok(path(&file)?.to_owned())
}

/// Writes the object of this kind in a file into another file, with these fields in its spec. Returns that file.
pub(super) async fn with_spec(cluster: &Cluster, file: &str, kind: &str, fields: &[(&str, Value)]) -> Result<String> {
    let mut spec = as_read(cluster, file, kind).await?.get("spec").cloned().unwrap_or_default();
    let of_spec = spec.as_object_mut().with_context(|| format!("the {kind} in {file} has no spec"))?;
    of_spec.extend(fields.iter().map(|(field, value)| ((*field).to_owned(), value.clone())));
    variant(cluster, file, kind, &[("/spec", spec)]).await
}

/// Fails unless the manifest of the page is the example of the project, but for images, requests, scheduler names and the annotations that
/// make a gang. `ours` is the manifest without what else the page adds.
pub(super) async fn is_their_example(cluster: &Cluster, mut ours: Value, operator: &Operator, kind: &str) -> Result<()> {
    let mut theirs = as_read(cluster, path(&operator.example())?, kind).await?;
    for manifest in [&mut ours, &mut theirs] {
        without_site(manifest);
    }
    ensure!(ours == theirs, "the manifest of the page is {ours}, the example {theirs}");
    Ok(())
}

/// Removes what every user changes in an example, from all pod templates in it.
fn without_site(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["image", "resources", "schedulerName"] {
                map.remove(key);
            }
            if let Some(Value::Object(annotations)) = map.get_mut("annotations") {
                annotations.retain(|key, _| key != "podgroup.dev/gang" && key != "scheduling.k8s.io/group-name" && key != MIN_MEMBER);
            }
            map.values_mut().for_each(without_site);
            map.retain(|_, value| !matches!(value, Value::Null) && value.as_object().is_none_or(|map| !map.is_empty()));
        }
        Value::Array(all) => all.iter_mut().for_each(without_site),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
