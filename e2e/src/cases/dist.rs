//! Row C11: the result of `make dist`. The case runs all of release/dist.sh, then takes the result apart and runs it.
//!
//! The programs are those that ship. `make test` compiles them before, and other cases run them, too; otherwise the script compiles them now.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::{Value, json};
use tokio::process::Command;

use super::rendered::{both_from, end};
use crate::cluster::Cluster;
use crate::objects::make_node;
use crate::workloads::{Workload, wait_running};
use crate::world::World;
use crate::{chart, kit, say};

/// The version in Cargo.toml, which the script reads, too.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The programs in the image.
const IN_THE_IMAGE: [&str; 2] = ["podgroup-controller", "podgroup-scheduler"];

/// C11. Five files with matching checksums, of which one names the archive for krew; static programs; an image with the two programs only,
/// as in the Dockerfile, and identical when it is built again; a chart that names this image. The chart is installed, and the programs of
/// the image run as it says.
pub(super) async fn made_and_run(w: &mut World) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        say::line("        C11: release/dist.sh makes programs for x86-64 Linux, and this machine is another one: skipped");
        return Ok(());
    }
    let cluster = w.cluster();
    let folder = |name: &str| cluster.scratch().path(name);
    let dist = folder("dist");
    run_script(&dist, &[]).await?;
    let (archive, image) = (format!("podgroup-{VERSION}-linux-amd64.tar.gz"), format!("podgroup-{VERSION}-linux-amd64.oci.tar"));
    let (packed, krew) = (format!("podgroup-{VERSION}.tgz"), format!("podgroup-{VERSION}-krew.yaml"));
    let files: BTreeSet<_> = names(&dist)?.into_iter().collect();
    ensure!(
        files == [archive.clone(), image.clone(), packed.clone(), krew.clone(), "SHA256SUMS".to_owned()].into(),
        "dist/ contains {files:?}"
    );
    shell(&dist, "sha256sum --check --strict --quiet SHA256SUMS && [ $(wc -l <SHA256SUMS) = 4 ]").await.context("the checksums")?;

    shell(&dist, &format!("sum=$(sha256sum {archive} | cut -d' ' -f1) && grep -qx \"      sha256: $sum\" {krew}"))
        .await
        .context("the manifest for krew")?;
    programs(&unpacked(&dist.join(archive), &folder("archive")).await?.join(format!("podgroup-{VERSION}-linux-amd64"))).await?;
    let root = check_image(&dist.join(&image), &folder("layout"), &folder("root")).await?;
    run_script(&folder("second"), &["image"]).await?;
    shell(&dist, &format!("cmp {image} ../second/{image}")).await.context("a second build gives another image")?;
    read_with_skopeo(&dist.join(&image), &folder("skopeo")).await?;
    build_with_dockerfile(&root, &folder("buildah")).await?;
    run_packed_chart(cluster, &dist.join(packed), &root).await
}

/// Runs the script as `make dist` does, except for the folder.
async fn run_script(dist: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("bash");
    command.arg(kit::repository().join("release/dist.sh")).args(arguments).env("DIST", dist);
    output(command).await.map(drop)
}

/// The archive contains the programs, which need no library of the machine, print the version and are executable, and the documents.
async fn programs(folder: &Path) -> Result<()> {
    let found = names(folder)?;
    let wanted = ["CHANGELOG.md", "LICENSE", "README.md", "kubectl-podgroup", "podgroup-controller", "podgroup-scheduler"];
    ensure!(found == wanted, "the archive contains {found:?}");
    for name in wanted.into_iter().filter(|name| name.contains("podgroup")) {
        let program = folder.join(name);
        // ldd prints "not a dynamic executable" to stderr and fails.
        let needs = shell(folder, &format!("ldd ./{name} 2>&1 || true")).await?;
        ensure!(needs.contains("statically linked") || needs.contains("not a dynamic executable"), "{name} is not static: {needs}");
        let mode = std::fs::metadata(&program)?.permissions().mode() & 0o777;
        ensure!(mode == 0o755, "the mode of {name} is {mode:o}");
        runs_alone(folder, name).await?;
    }
    Ok(())
}

/// The program prints its version in a file system that contains only its own folder, if this machine allows user namespaces.
async fn runs_alone(root: &Path, name: &str) -> Result<()> {
    let root = root.to_str().context("the run's folder is no UTF-8")?;
    let mut alone = Command::new("unshare");
    alone.args(["--user", "--map-root-user", "--root", root, "--wd", "/", &format!("/{name}"), "--version"]);
    let said = match output(alone).await {
        Ok(said) => said,
        Err(error) => {
            // Finds out whether the namespace or the program fails.
            let mut place = Command::new("unshare");
            place.args(["--user", "--map-root-user", "true"]);
            ensure!(output(place).await.is_err(), "{name} cannot run alone: {error:#}");
            say::line("        C11: this machine allows no user namespaces, so the programs run beside its libraries");
            let mut beside = Command::new(Path::new(root).join(name));
            beside.arg("--version").env_clear();
            output(beside).await?
        }
    };
    ensure!(said.trim() == format!("{name} {VERSION}"), "{name} printed {said}");
    Ok(())
}

/// Takes the image apart, from its index to the files of its layer, compares it with the Dockerfile, and returns the folder of its files.
async fn check_image(file: &Path, layout: &Path, root: &Path) -> Result<PathBuf> {
    let layout = unpacked(file, layout).await?;
    shell(&layout.join("blobs/sha256"), "for each in *; do echo \"$each  $each\"; done | sha256sum --check --strict --quiet").await?;
    let json = |file: PathBuf| -> Result<Value> { Ok(serde_json::from_slice(&std::fs::read(file)?)?) };
    let blob = |of: &Value| -> Result<PathBuf> {
        let digest =
            of.pointer("/digest").and_then(Value::as_str).and_then(|digest| digest.strip_prefix("sha256:")).context("no digest")?;
        let path = layout.join("blobs/sha256").join(digest);
        ensure!(of.pointer("/size") == Some(&std::fs::metadata(&path)?.len().into()), "the size of {digest} is not {of}");
        Ok(path)
    };
    let index = json(layout.join("index.json"))?;
    let entry = index.pointer("/manifests/0").context("no manifest")?;
    let reference = entry.pointer("/annotations/io.containerd.image.name").cloned().unwrap_or_default();
    ensure!(reference == format!("localhost/podgroup:{VERSION}"), "the image is called {reference}");
    let manifest = json(blob(entry)?)?;
    let config = json(blob(manifest.pointer("/config").context("no config")?)?)?;
    let layers = manifest.pointer("/layers").and_then(Value::as_array).context("no layers")?;
    let [layer] = layers.as_slice() else { anyhow::bail!("{} layers", layers.len()) };
    let layer = blob(layer)?;
    let sum = shell(&layout, &format!("gzip -dc '{}' | sha256sum | cut -d' ' -f1", layer.display())).await?;
    ensure!(config.pointer("/rootfs/diff_ids/0") == Some(&format!("sha256:{}", sum.trim()).into()), "the config names another layer");
    ensure!(config.pointer("/config/Labels/org.opencontainers.image.version") == Some(&VERSION.into()), "the config has another version");
    let root = unpacked(&layer, root).await?;
    let found = names(&root)?;
    ensure!(found == IN_THE_IMAGE, "the image contains {found:?}");
    for name in IN_THE_IMAGE {
        runs_alone(&root, name).await?;
    }

    let dockerfile = std::fs::read_to_string(kit::repository().join("Dockerfile"))?;
    let said =
        |word: &str| dockerfile.lines().find_map(|line| line.strip_prefix(word)).with_context(|| format!("the Dockerfile has no {word}"));
    ensure!(said("FROM ")? == "scratch", "the Dockerfile begins with another image");
    ensure!(config.pointer("/config/User") == Some(&said("USER ")?.into()), "the Dockerfile has another user");
    let entrypoint: Value = serde_json::from_str(said("ENTRYPOINT ")?)?;
    ensure!(config.pointer("/config/Entrypoint") == Some(&entrypoint), "the Dockerfile has another entrypoint");
    let copied: Vec<_> = said("COPY ")?.split(' ').filter_map(|word| word.strip_prefix("${FOLDER}/")).collect();
    ensure!(copied == IN_THE_IMAGE, "the Dockerfile copies {copied:?}");
    Ok(root)
}

/// Reads the image with skopeo, as docs/install.md describes for a registry; here into a folder.
async fn read_with_skopeo(image: &Path, to: &Path) -> Result<()> {
    let mut there = Command::new("skopeo");
    there.arg("--version");
    if output(there).await.is_err() {
        say::line("        C11: this machine has no skopeo: no other program read the image");
        return Ok(());
    }
    let mut copy = Command::new("skopeo");
    copy.args(["--insecure-policy", "copy", &format!("oci-archive:{}", image.display()), &format!("dir:{}", to.display())]);
    output(copy).await.map(drop)
}

/// Builds the image from the Dockerfile with buildah, if it is available and may run: it has the same user and entrypoint, and its programs
/// run alone.
async fn build_with_dockerfile(programs: &Path, folder: &Path) -> Result<()> {
    let (context, store, run) = (folder.join("context"), folder.join("store"), folder.join("run"));
    let buildah = |arguments: &[&str]| {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(&store).arg("--runroot").arg(&run).args(["--storage-driver", "vfs"]).args(arguments);
        output(command)
    };
    let root = shell(Path::new("/"), "id -u").await?.trim() == "0";
    if !root || buildah(&["--version"]).await.is_err() {
        say::line("        C11: no root rights or no buildah here: the Dockerfile was not built");
        return Ok(());
    }
    std::fs::create_dir_all(context.join("bin"))?;
    std::fs::copy(kit::repository().join("Dockerfile"), context.join("Dockerfile"))?;
    for name in IN_THE_IMAGE {
        std::fs::copy(programs.join(name), context.join("bin").join(name))?;
    }
    let context = context.to_str().context("the run's folder is no UTF-8")?;
    buildah(&["build", "--isolation", "chroot", "--build-arg", "FOLDER=bin", "--tag", "podgroup", context]).await?;
    let image: Value = serde_json::from_str(&buildah(&["inspect", "--type", "image", "podgroup"]).await?)?;
    let config = image.pointer("/OCIv1/config").context("the image has no config")?;
    ensure!(config.pointer("/User") == Some(&"65532:65532".into()), "the built image has another user: {config}");
    ensure!(config.pointer("/Entrypoint") == Some(&json!(["/podgroup-controller"])), "the built image has another entrypoint: {config}");
    let container = buildah(&["from", "podgroup"]).await?;
    let mounted = PathBuf::from(buildah(&["mount", container.trim()]).await?.trim());
    let found = names(&mounted)?;
    ensure!(found == IN_THE_IMAGE, "the built image contains {found:?}");
    for name in IN_THE_IMAGE {
        runs_alone(&mounted, name).await?;
    }
    buildah(&["rm", "--all"]).await.map(drop)
}

/// Installs the packed chart. It names the image and its user, and the programs of the image run a gang with the arguments of the chart.
async fn run_packed_chart(cluster: &Cluster, packed: &Path, root: &Path) -> Result<()> {
    let client = cluster.client();
    chart::install_from(cluster, packed, &[]).await?;
    chart::settle(cluster, true).await?;
    for name in [chart::CONTROLLER, chart::SCHEDULER] {
        let deployment = Api::<Deployment>::namespaced(client.clone(), chart::NAMESPACE).get(name).await?;
        let pod = deployment.spec.and_then(|spec| spec.template.spec).context("a template has a spec")?;
        let image = pod.containers.first().and_then(|container| container.image.clone()).unwrap_or_default();
        ensure!(image == format!("podgroup:{VERSION}"), "the packed chart names the image {image}");
        let user = pod.security_context.and_then(|context| context.run_as_user);
        ensure!(user == Some(65532), "the packed chart has the user {user:?}, the image 65532");
    }
    let programs = both_from(cluster, root, "podgroup", "of-the-image").await?;
    for program in &programs {
        let (status, body) = program.scraped(cluster, None).await?;
        let said = body.lines().any(|line| line.starts_with("podgroup_build_info{") && line.contains(&format!("\"{VERSION}\"")));
        ensure!(status == 200 && said, "no metric has version {VERSION}: {status}");
    }
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi")]).await?;
    Workload::new("train").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "train", 2, 10).await?;
    end(programs).await
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Unpacks an archive into a new folder and returns the folder.
async fn unpacked(file: &Path, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(file).arg("-C").arg(folder);
    output(tar).await?;
    Ok(folder.to_owned())
}

async fn shell(folder: &Path, script: &str) -> Result<String> {
    let mut bash = Command::new("bash");
    bash.args(["-euc", script]).current_dir(folder).env("LC_ALL", "C");
    output(bash).await
}

/// Returns what the command prints, or an error with its stderr.
async fn output(mut command: Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("the command cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(text)
}
