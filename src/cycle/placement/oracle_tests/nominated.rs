//! Which nodes have other schedulers nominated for their pods?

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::pods::pod;

/// A pod of another scheduler, with a priority and a nominated node.
pub(super) fn nominated() -> impl Strategy<Value = (Value, Index)> {
    (pod(), any::<Index>(), 0..3_i32).prop_map(|(mut pod, node, priority)| {
        pod["spec"]["schedulerName"] = json!("theirs");
        pod["spec"]["priority"] = json!(priority);
        (pod, node)
    })
}
