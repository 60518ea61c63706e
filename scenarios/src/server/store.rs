//! Which objects exist, in which version, and what happened to them?
//!
//! One resourceVersion grows over all kinds, as etcd's revision does. The log keeps every change, so a watch can begin at any version that
//! is not compacted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::kinds::Kind;
use super::patch::as_map;
use super::selector::Selector;

/// The name of an object: its kind in paths, its namespace (empty where there is none), its name.
pub type Key = (&'static str, String, String);

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted; the object is its last state.
    Deleted,
}

impl Happened {
    /// Returns the type of the watch event.
    #[must_use]
    pub const fn event(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version that it made.
    pub version: u64,
    /// The kind.
    pub plural: &'static str,
    /// What happened.
    pub happened: Happened,
    /// The object after it; of a deleted one the last state.
    pub object: Value,
}

/// A watch that is open.
struct Watcher {
    plural: &'static str,
    /// The program that opened it.
    sender: String,
    selector: Selector,
    events: mpsc::UnboundedSender<Change>,
    /// What it has not delivered, since it is silent; `None` for one that is not.
    kept: Option<Vec<Change>>,
    /// The version of its bookmarks, which a silent one may repeat; empty where it has none.
    progress: Progress,
}

/// The version that the bookmarks of a watch have.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Option<Option<u64>>>>);

impl Progress {
    /// Returns the version of a bookmark at `version`; `None` where the watch is silent.
    #[must_use]
    pub fn at(&self, version: u64) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(Some(version))
    }

    fn set(&self, silent: Option<Option<u64>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = silent;
    }
}

/// The objects and their history.
pub struct Store {
    objects: BTreeMap<Key, Value>,
    log: Vec<Change>,
    version: u64,
    made: u64,
    watchers: Vec<Watcher>,
    /// Versions up to this one are forgotten: a watch from them is refused.
    compacted: u64,
    began: (Instant, Timestamp),
}

impl Store {
    /// Makes an empty store, at this time of the wall clock.
    #[must_use]
    pub fn new(wall: Timestamp) -> Self {
        Self {
            objects: BTreeMap::new(),
            log: Vec::new(),
            version: 1000,
            made: 0,
            watchers: Vec::new(),
            compacted: 0,
            began: (Instant::now(), wall),
        }
    }

    /// Returns the version of the newest change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the time of the wall clock, as objects have it: whole seconds.
    #[must_use]
    pub fn time(&self) -> String {
        let (began, wall) = self.began;
        let passed = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::ZERO);
        let now = wall.saturating_add(passed).unwrap_or(wall);
        Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    /// Returns an object.
    #[must_use]
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.plural, namespace.to_owned(), name.to_owned()))
    }

    /// Returns the objects of a kind, by namespace and name.
    pub fn all(&self, plural: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((of, ..), _)| *of == plural).map(|(_, object)| object)
    }

    /// Returns the objects of a kind as they were at this version, by namespace and name.
    #[must_use]
    pub fn all_at(&self, plural: &str, version: u64) -> BTreeMap<(String, String), &Value> {
        let mut objects = BTreeMap::new();
        for change in self.log.iter().filter(|change| change.plural == plural && change.version <= version) {
            match change.happened {
                Happened::Deleted => objects.remove(&names(&change.object)),
                Happened::Added | Happened::Modified => objects.insert(names(&change.object), &change.object),
            };
        }
        objects
    }

    /// Returns every change so far, the oldest first.
    #[must_use]
    pub fn log(&self) -> &[Change] {
        &self.log
    }

    /// Gives a new object what the API server gives it, and stores it. There is none of its name.
    pub fn add(&mut self, kind: &'static Kind, mut object: Value) -> Value {
        self.made += 1;
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.made);
        let time = self.time();
        let fields = as_map(&mut object);
        fields.insert("apiVersion".to_owned(), kind.api_version.into());
        fields.insert("kind".to_owned(), kind.name.into());
        let metadata = as_map(fields.entry("metadata").or_insert(Value::Null));
        // The YAML of a scenario may name it, so that other objects can refer to it.
        metadata.entry("uid").or_insert_with(|| uid.into());
        metadata.insert("creationTimestamp".to_owned(), time.into());
        metadata.insert("generation".to_owned(), 1.into());
        self.commit(kind.plural, Happened::Added, object)
    }

    /// Stores a changed object. Nothing happens if it is the same as before.
    pub fn change(&mut self, kind: &'static Kind, mut object: Value) -> Value {
        let before = self.objects.get(&key(kind.plural, &object));
        if before == Some(&object) {
            return object;
        }
        if before.is_some_and(|before| before["spec"] != object["spec"]) {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            as_map(&mut object["metadata"]).insert("generation".to_owned(), json!(generation));
        }
        self.commit(kind.plural, Happened::Modified, object)
    }

    /// Removes an object, and everything that only it owns, as the garbage collector does.
    pub fn remove(&mut self, kind: &'static Kind, namespace: &str, name: &str) -> Option<Value> {
        let object = self.objects.remove(&(kind.plural, namespace.to_owned(), name.to_owned()))?;
        let object = self.commit(kind.plural, Happened::Deleted, object);
        let uid = object["metadata"]["uid"].clone();
        let owned = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(|owner| owner["uid"] == uid))
        };
        let orphans: Vec<Value> = self.objects.values().filter(owned).cloned().collect();
        for orphan in orphans {
            if let Some(kind) = orphan["kind"].as_str().and_then(Kind::named) {
                self.begin_deletion(kind, &orphan);
            }
        }
        Some(object)
    }

    /// Deletes an object. A pod on a node and an object with finalizers stay, and are marked; returns whether it is gone.
    pub fn begin_deletion(&mut self, kind: &'static Kind, object: &Value) -> bool {
        let (namespace, name) = names(object);
        let waits = has_finalizers(object);
        let runs = kind.plural == "pods" && object["spec"]["nodeName"].is_string() && !ended(object);
        if !waits && !runs {
            return self.remove(kind, &namespace, &name).is_some();
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            let mut marked = object.clone();
            let metadata = as_map(&mut marked["metadata"]);
            metadata.insert("deletionTimestamp".to_owned(), self.time().into());
            if runs {
                metadata.insert("deletionGracePeriodSeconds".to_owned(), 30.into());
            }
            self.change(kind, marked);
        }
        false
    }

    fn commit(&mut self, plural: &'static str, happened: Happened, mut object: Value) -> Value {
        self.version += 1;
        as_map(&mut object["metadata"]).insert("resourceVersion".to_owned(), self.version.to_string().into());
        if happened != Happened::Deleted {
            self.objects.insert(key(plural, &object), object.clone());
        }
        let change = Change { version: self.version, plural, happened, object: object.clone() };
        self.log.push(change.clone());
        self.watchers.retain_mut(|watcher| {
            if watcher.plural != change.plural || !watcher.selector.takes(&change.object) {
                return true;
            }
            match &mut watcher.kept {
                Some(kept) => kept.push(change.clone()),
                None => return watcher.events.send(change.clone()).is_ok(),
            }
            true
        });
        object
    }

    /// Opens a watch from a version; `None` if that is forgotten.
    pub fn watch(
        &mut self,
        plural: &'static str,
        sender: &str,
        selector: Selector,
        from: u64,
    ) -> Option<(mpsc::UnboundedReceiver<Change>, Progress)> {
        if from < self.compacted {
            return None;
        }
        let (events, receiver) = mpsc::unbounded_channel();
        for change in self.log.iter().filter(|change| change.plural == plural && change.version > from && selector.takes(&change.object)) {
            events.send(change.clone()).ok()?;
        }
        let progress = Progress::default();
        let watcher = Watcher { plural, sender: sender.to_owned(), selector, events, kept: None, progress: progress.clone() };
        self.watchers.push(watcher);
        Some((receiver, progress))
    }

    /// Ends every watch, and forgets the versions so far: the next watches begin with lists.
    pub fn compact(&mut self) {
        self.watchers.clear();
        self.compacted = self.version;
    }

    /// Ends the watches of a program.
    pub fn end_watches_of(&mut self, sender: &str) {
        self.watchers.retain(|watcher| watcher.sender != sender);
    }

    /// Lets the open watches of a kind say nothing; without a name of a program those of all. With `repeating` they go on with bookmarks of
    /// this version.
    pub fn silence(&mut self, plural: &str, sender: Option<&str>, repeating: bool) {
        for watcher in self.watchers.iter_mut().filter(|watcher| is_of(watcher, plural, sender)) {
            watcher.kept.get_or_insert_default();
            watcher.progress.set(Some(repeating.then_some(self.version)));
        }
    }

    /// Lets the silent watches of a kind say what they have not said.
    pub fn speak(&mut self, plural: &str, sender: Option<&str>) {
        self.watchers.retain_mut(|watcher| {
            if !is_of(watcher, plural, sender) {
                return true;
            }
            watcher.progress.set(None);
            watcher.kept.take().unwrap_or_default().into_iter().all(|change| watcher.events.send(change).is_ok())
        });
    }
}

fn is_of(watcher: &Watcher, plural: &str, sender: Option<&str>) -> bool {
    watcher.plural == plural && sender.is_none_or(|sender| watcher.sender == sender)
}

fn key(plural: &'static str, object: &Value) -> Key {
    let (namespace, name) = names(object);
    (plural, namespace, name)
}

/// Returns the namespace (empty where there is none) and the name of an object.
#[must_use]
pub fn names(object: &Value) -> (String, String) {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (field("namespace"), field("name"))
}

/// Whether an object has finalizers, so that its deletion waits for them.
#[must_use]
pub fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Whether a pod has ended.
#[must_use]
pub fn ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}
