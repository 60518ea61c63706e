//! Says what the annotations of an owner and of its pod template ask for: the values of fields, and the faults in them.

use std::collections::BTreeMap;

use crate::api::Fault;
use crate::api::dns::is_subdomain;
use crate::api::misspelt::meant_by;
use crate::api::names::{COPIED_PREFIX, DEFAULT_QUEUE, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use crate::api::quantities::{self, RawResources};
use crate::api::workload::{GroupAnnotations, NamespaceQueue};
use crate::resources::{ResourceName, Resources};

/// The largest total size of copied annotations, in bytes of JSON. JSON may need six bytes for one. Each copied annotation is on the
/// PodGroup twice: as itself, and inside `podgroup.dev/applied`. The API server accepts 256 KiB of annotations in all.
const COPIED_BYTES: usize = 64 * 1024;

/// The most resources in `group-min-resources`. No node has nearly as many, and they are on the PodGroup twice too.
const MOST_RESOURCES: usize = 64;

/// The annotations in which a field is looked up, in order.
pub(super) struct Sources<'a> {
    pub(super) owner: &'a GroupAnnotations,
    pub(super) template: &'a GroupAnnotations,
}

impl Sources<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.owner.get(key).or_else(|| self.template.get(key)).map(String::as_str)
    }

    /// Returns the minMember that is asked for. `None` if none is asked for, or no positive 32-bit number; `instead` says in the fault what
    /// is used then.
    pub(super) fn asked_min_member(&self, instead: &str, faults: &mut Vec<Fault>) -> Option<u32> {
        let text = self.get(MIN_MEMBER)?;
        let number = text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        if number.is_none() {
            faults.push(Fault::new(MIN_MEMBER, text, format!("not a positive 32-bit number; {instead}")));
        }
        number
    }

    /// Returns the minResources that are asked for. `None` if none are asked for, or they cannot be used.
    pub(super) fn asked_min_resources(&self, faults: &mut Vec<Fault>) -> Option<Resources> {
        let text = self.get(MIN_RESOURCES)?;
        match serde_json::from_str::<RawResources>(text) {
            Ok(raw) if raw.len() > MOST_RESOURCES => {
                faults.push(Fault::new(MIN_RESOURCES, text, "more than 64 resources; the pods' own requests are used"));
                None
            }
            Ok(raw) => quantities::stated(&raw, MIN_RESOURCES, faults),
            Err(_) => {
                faults.push(Fault::new(MIN_RESOURCES, text, "not a JSON object of quantities; the pods' own requests are used"));
                None
            }
        }
    }

    /// Returns the name of the queue; the default queue if the name is not valid.
    pub(super) fn queue(&self, namespace: &NamespaceQueue, faults: &mut Vec<Fault>) -> String {
        let own = self.get(QUEUE_NAME);
        let of_namespace = if let NamespaceQueue::Named(name) = namespace { Some(name.as_str()) } else { None };
        match own.or(of_namespace) {
            None => DEFAULT_QUEUE.to_owned(),
            Some(name) if is_subdomain(name) => name.to_owned(),
            Some(name) => {
                let field = if own.is_some() { QUEUE_NAME.to_owned() } else { format!("{QUEUE_NAME} of the namespace") };
                faults.push(Fault::new(field, name, "not the name of a queue (a DNS-1123 subdomain); the default queue is used"));
                DEFAULT_QUEUE.to_owned()
            }
        }
    }

    /// Adds a fault for each annotation that looks like one that is read, and for that of the namespace where its queue would be used.
    pub(super) fn misspelt(&self, namespace: &NamespaceQueue, faults: &mut Vec<Fault>) {
        let not_read = |meant: &str| format!("no such annotation, it is not read; meant may be {meant}");
        if let NamespaceQueue::Misspelt { key, value } = namespace
            && self.get(QUEUE_NAME).is_none()
        {
            faults.push(Fault::new(format!("{key} of the namespace"), value, not_read(QUEUE_NAME)));
        }
        let keys: BTreeMap<&String, &String> = self.template.iter().chain(self.owner).collect();
        faults.extend(keys.into_iter().filter_map(|(key, value)| Some(Fault::new(key.clone(), value, not_read(&meant_by(key)?)))));
    }

    /// Returns the annotations of the owner that are copied to the PodGroup.
    pub(super) fn copied(&self, faults: &mut Vec<Fault>) -> BTreeMap<String, String> {
        let mut bytes = 0_usize;
        let mut copied = BTreeMap::new();
        let mut full = None;
        for (key, value) in self.owner.iter().filter(|(key, _)| key.starts_with(COPIED_PREFIX)) {
            let with = bytes.saturating_add(key.len()).saturating_add(length_as_json(value));
            if with > COPIED_BYTES {
                // Only the first one becomes a fault: there may be thousands.
                full.get_or_insert_with(|| {
                    Fault::new(key.clone(), value, "not copied: the annotations to copy are larger than 64 KiB in all")
                });
                continue;
            }
            bytes = with;
            copied.insert(key.clone(), value.clone());
        }
        faults.extend(full);
        copied
    }
}

/// Returns the requests of `pods` pods that each request this. The resource `pods` is left out, because minMember already says it.
pub(super) fn requests_of(pods: u32, request: &Resources) -> Resources {
    request.iter().filter(|(name, _)| &***name != ResourceName::PODS).map(|(name, amount)| (name.clone(), amount.times(pods))).collect()
}

/// Returns the length of the text as JSON, in bytes. A control character has six bytes.
fn length_as_json(text: &str) -> usize {
    text.bytes().fold(2_usize, |length, byte| {
        length.saturating_add(match byte {
            b'"' | b'\\' => 2,
            0..0x20 => 6,
            _ => 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_text_as_json_is_never_underestimated() {
        for text in ["", "plain", "\"\\", "\u{0}\u{1f}\n\t", "ü€", "a\u{7f}b"] {
            assert!(length_as_json(text) >= serde_json::to_string(text).unwrap().len(), "{text:?}");
        }
    }
}
