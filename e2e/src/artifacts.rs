//! Keeps what remains of a failed case: one folder with logs, Events and objects.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use futures::FutureExt;

use crate::world::World;
use crate::{kit, say};

/// The resources that are read with kubectl: `describe` for people, JSON for everything else.
const OBJECTS: [&str; 10] = [
    "pods",
    "podgroups.scheduling.volcano.sh",
    "queues.scheduling.volcano.sh",
    "nodes",
    "deployments",
    "replicasets",
    "events",
    "leases",
    "persistentvolumeclaims",
    "persistentvolumes",
];

/// Keeps the data of `world` in `e2e/artifacts/NAME` and returns the folder. What cannot be read is named in `left-out.txt`: an error here
/// must not hide the failure itself.
pub async fn keep(world: &mut World, name: &str) -> Result<PathBuf> {
    let folder = kit::crate_folder().join("artifacts").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut missing = Vec::new();
    for each in OBJECTS {
        let arguments = ["get", each, "--all-namespaces", "--output=json"];
        save(&folder.join(format!("{}.json", short(each))), world.cluster().run("kubectl", &arguments).await, &mut missing);
    }
    for each in ["pods", "podgroups.scheduling.volcano.sh", "deployments"] {
        let arguments = ["describe", each, "--namespace=default"];
        save(&folder.join(format!("{}.txt", short(each))), world.cluster().run("kubectl", &arguments).await, &mut missing);
    }
    let scheduler = world.scheduler().map(|program| program.port()).ok();
    if let Some(port) = scheduler {
        for each in ["ledger", "queues", "audit"] {
            let answer = crate::http::get(port, &format!("/debug/{each}")).map(|answer| answer.map(|(_, body)| body)).await;
            save(&folder.join(format!("debug-{each}.json")), answer, &mut missing);
        }
    }
    match world.requests() {
        Ok(requests) => {
            let lines: Vec<String> = requests.counts.iter().map(|(what, count)| format!("{count:>7} {what}")).collect();
            std::fs::write(folder.join("requests.txt"), lines.join("\n"))?;
        }
        Err(error) => missing.push(format!("requests.txt is missing: {}", say::brief(&error))),
    }
    copy_all(&world.cluster().scratch().path("logs"), &folder, &mut missing);
    copy_all(&world.cluster().component_logs(), &folder, &mut missing);
    if !missing.is_empty() {
        std::fs::write(folder.join("left-out.txt"), missing.join("\n") + "\n")?;
    }
    Ok(folder)
}

/// Writes the reasons of the failure, and the seed of the random delays.
pub fn tell_why(folder: &Path, seed: u64, reasons: &[String]) -> Result<()> {
    let text = format!("{}\nseed {seed}\n", reasons.join("\n"));
    std::fs::write(folder.join("why.txt"), text).context("why.txt")
}

fn short(resource: &str) -> &str {
    resource.split('.').next().unwrap_or(resource)
}

fn save(file: &Path, content: Result<String>, missing: &mut Vec<String>) {
    let outcome = content.and_then(|content| Ok(std::fs::write(file, content)?));
    if let Err(error) = outcome {
        missing.push(format!("no {}: {}", file.display(), say::brief(&error)));
    }
}

fn copy_all(from: &Path, to: &Path, missing: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(from) else {
        missing.push(format!("logs are missing in {}", from.display()));
        return;
    };
    for entry in entries.flatten() {
        if let Err(error) = std::fs::copy(entry.path(), to.join(entry.file_name())) {
            missing.push(format!("no {}: {error}", entry.path().display()));
        }
    }
}
