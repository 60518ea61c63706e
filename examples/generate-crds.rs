//! Writes the CustomResourceDefinitions into the repository, from the Rust types. Called by `make generate`, from the repository's root.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (path, text) in podgroup::api::crd::files()? {
        if let Some(folder) = std::path::Path::new(&path).parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
