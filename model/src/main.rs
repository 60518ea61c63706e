//! `make model`: searches all worlds and all mutants. With an argument, a part of them, or the worlds with the argument in their name.

fn main() -> std::process::ExitCode {
    let wrong = match std::env::args().nth(1).as_deref() {
        None => podgroup_model::all(),
        Some("mutants") => podgroup_model::only_mutants(),
        Some("handover") => podgroup_model::all_handover(),
        Some("small") => [podgroup_model::small(), podgroup_model::small_handover()].concat(),
        Some("large") => podgroup_model::large(),
        Some("interference") => podgroup_model::apart(),
        Some(words) => podgroup_model::some(words),
    };
    for wrong in &wrong {
        println!("WRONG: {wrong}");
    }
    if wrong.is_empty() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
