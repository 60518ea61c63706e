//! Locates the real programs of the control plane in the folder that `make tools` builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A folder with etcd, kube-apiserver, kube-controller-manager, kubectl, kwok, kwokctl and helm. The whole kit also has kube-scheduler and
/// the oracle.
#[derive(Clone, Debug)]
pub struct Kit {
    folder: PathBuf,
}

impl Kit {
    /// Returns the whole kit. Fails if it is not built completely.
    pub fn locate() -> Result<Self> {
        Self::at(&[])
    }

    /// Returns what a cluster without kube-scheduler needs: `make demo` and `make cluster-up` build no more.
    pub fn control_plane() -> Result<Self> {
        Self::at(&["control-plane"])
    }

    /// Returns the folder in `PODGROUP_KIT`, or the folder that `e2e/tools/build.sh --path` prints for this part.
    fn at(part: &[&str]) -> Result<Self> {
        let folder = match std::env::var_os("PODGROUP_KIT") {
            Some(folder) => PathBuf::from(folder),
            None => {
                let script = crate_folder().join("tools/build.sh");
                let output = Command::new("bash").arg(&script).arg("--path").args(part).output().context("bash is needed")?;
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

    /// Returns the path of one program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Returns the folder of the crate `e2e` in the source tree.
pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the root of the source tree.
pub fn repository() -> &'static Path {
    crate_folder().parent().unwrap_or(crate_folder())
}
