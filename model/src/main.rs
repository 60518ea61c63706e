//! `make model`: the big worlds.

fn main() {
    podgroup_model::probe(std::env::args().nth(1).as_deref());
}
