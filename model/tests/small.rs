//! Tests that every promise holds in the small worlds, and that every mutant breaks its promise. `make model` searches the big worlds.

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

#[test]
fn the_handover_keeps_its_promises_in_small_worlds_and_every_mutant_is_found() {
    let wrong = podgroup_model::small_handover();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
