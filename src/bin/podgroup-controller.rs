//! The program `podgroup-controller`: parses the flags and runs the controller of the library.

use std::process::ExitCode;

use clap::Parser;
use podgroup::runtime::flags::ControllerFlags;

#[tokio::main]
async fn main() -> ExitCode {
    podgroup::controller::run(ControllerFlags::parse()).await
}
