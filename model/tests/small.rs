//! The small worlds keep every promise, and every mutant breaks one of them: run by `cargo test`. The big ones are `make model`.

#[test]
fn small_worlds_are_exhausted_and_every_mutant_is_found() {
    let wrong = podgroup_model::small();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn two_owners_do_not_interfere() {
    let wrong = podgroup_model::apart();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
