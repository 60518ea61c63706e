//! Which right would have to be granted where a policy of the chart refuses a request of a tenant?

/// Returns what to do about a refusal by the tenancy policies, for the namespace of the refused object; `None` where the message is another.
///
/// The messages are those of `charts/podgroup/templates/tenancy.yaml`; docs/reference.md lists them.
#[must_use]
pub(super) fn lacking(message: &str, namespace: &str) -> Option<String> {
    let (refused, lacks) = message.split_once(" lacks the verb ")?;
    let (about, who) = refused.rsplit_once(": ")?;
    let (verb, on) = lacks.split_once(" on ")?;
    let named = |word: &str| {
        let (_, name) = about.rsplit_once(word)?;
        name.split_once(" may not be used").map(|(name, _)| name)
    };
    let (right, other) = if let Some(queue) = named("queue ").filter(|_| on.starts_with("it")) {
        (format!("{verb} on queues.scheduling.volcano.sh {queue}"), "or name another queue")
    } else if let Some(class) = named("priority class ").filter(|_| on.starts_with("it")) {
        (format!("{verb} on priorityclasses.scheduling.k8s.io {class}"), "or name another class")
    } else if on.starts_with("all queues") {
        (format!("{verb} on queues.scheduling.volcano.sh"), "or write it on the PodGroup")
    } else {
        let queue = on.strip_prefix("queue ")?.split_whitespace().next()?;
        (format!("{verb} on queues.scheduling.volcano.sh {queue}"), "or remove the annotation")
    };
    let who = who.replace("of this namespace", &format!("of namespace {namespace}"));
    Some(format!("give {who} the verb {right} (a ClusterRole and a binding, docs/tenancy.md), {other}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of the policies, with what they stand for.
    const MESSAGES: [(&str, &str); 5] = [
        (
            "the API server refuses PodGroup podgroup-1: podgroups.scheduling.volcano.sh \"podgroup-1\" is forbidden: \
             ValidatingAdmissionPolicy 'p' with binding 'p' denied request: queue c may not be used: \
             ServiceAccount default of this namespace lacks the verb use on it",
            "give ServiceAccount default of namespace team the verb use on queues.scheduling.volcano.sh c \
             (a ClusterRole and a binding, docs/tenancy.md), or name another queue",
        ),
        (
            "denied request: priority class high may not be used: ann lacks the verb use on it",
            "give ann the verb use on priorityclasses.scheduling.k8s.io high (a ClusterRole and a binding, docs/tenancy.md), or name another class",
        ),
        (
            "denied request: priority class high may not be used on a pod: ServiceAccount default of this namespace lacks the verb use on it",
            "give ServiceAccount default of namespace team the verb use on priorityclasses.scheduling.k8s.io high \
             (a ClusterRole and a binding, docs/tenancy.md), or name another class",
        ),
        (
            "denied request: volcano.sh/preemptable: false may not be said, nor cooldown-time or jdb-*: ann lacks the verb hold on queue c",
            "give ann the verb hold on queues.scheduling.volcano.sh c (a ClusterRole and a binding, docs/tenancy.md), or remove the annotation",
        ),
        (
            "denied request: volcano.sh/preemptable: false may not be said on a pod, nor cooldown-time or jdb-*: ServiceAccount default of \
             this namespace lacks the verb hold on all queues (on a PodGroup that on its queue is enough)",
            "give ServiceAccount default of namespace team the verb hold on queues.scheduling.volcano.sh \
             (a ClusterRole and a binding, docs/tenancy.md), or write it on the PodGroup",
        ),
    ];

    #[test]
    fn each_refusal_for_a_right_says_which_one_to_give() {
        for (message, advice) in MESSAGES {
            assert_eq!(lacking(message, "team").as_deref(), Some(advice));
        }
        for other in ["exceeded quota: compute", "queue c may not be used", "a lacks the verb use on it", ""] {
            assert_eq!(lacking(other, "team"), None, "{other}");
        }
    }

    #[test]
    fn these_are_all_messages_of_the_policies_about_rights() {
        let policies = include_str!("../../charts/podgroup/templates/tenancy.yaml");
        assert_eq!(policies.matches(" lacks the verb ").count(), MESSAGES.len());
    }
}
