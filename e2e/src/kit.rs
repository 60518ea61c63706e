//! Where are the real programs of the control plane? In the kit's folder, which `make tools` builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok, kwokctl and helm.
#[derive(Clone, Debug)]
pub struct Kit {
    folder: PathBuf,
}

impl Kit {
    /// `PODGROUP_KIT` if set, else the folder that `e2e/tools/build.sh --path` names. Fails if the kit is not (completely) built.
    pub fn locate() -> Result<Self> {
        let folder = match std::env::var_os("PODGROUP_KIT") {
            Some(folder) => PathBuf::from(folder),
            None => {
                let script = crate_folder().join("tools/build.sh");
                let output = Command::new("bash").arg(&script).arg("--path").output().context("bash is needed")?;
                if !output.status.success() {
                    bail!("{} --path failed: {}", script.display(), String::from_utf8_lossy(&output.stderr));
                }
                PathBuf::from(String::from_utf8(output.stdout)?.trim())
            }
        };
        if !folder.join(".complete").exists() {
            bail!("the kit is not built in {}: run `make tools`", folder.display());
        }
        Ok(Self { folder })
    }

    /// Path of one program of the kit.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The folder of the crate `e2e` in the clone that this was built from.
pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root of that clone.
pub fn repository() -> &'static Path {
    crate_folder().parent().unwrap_or(crate_folder())
}
