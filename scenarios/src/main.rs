//! Plays the scenario files that are named, and says which failed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut failed = 0;
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        let played = std::fs::read_to_string(file).map_err(Into::into).and_then(|text| podgroup_scenarios::play::play(&text));
        match played {
            Ok(()) => println!("passed  {file}"),
            Err(error) => {
                failed += 1;
                println!("FAILED  {file}\n{error}");
            }
        }
    }
    if files.is_empty() {
        eprintln!("usage: podgroup-scenarios FILE...");
    }
    if failed == 0 && !files.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
