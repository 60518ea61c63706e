//! The kubectl plugin `kubectl podgroup`. The code is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    podgroup::plugin::main().await
}
