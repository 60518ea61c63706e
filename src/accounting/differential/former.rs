//! Where the deleted queues of a history were (T3), as plain facts.

use super::facts::{Facts, NAMES, QUEUES, ROOT};

/// The place of a deleted queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Former {
    pub(super) parent: usize,
    /// The pod with the path that says so, the higher number the younger; `None` where the deletion was seen.
    pub(super) told_by: Option<usize>,
}

const DEFAULT: usize = 5;

impl Facts {
    fn exists(&self, queue: usize) -> bool {
        queue == ROOT || queue == DEFAULT || self.queues[queue].is_some()
    }

    fn parent(&self, queue: usize) -> Option<usize> {
        let stated = (queue != ROOT).then(|| self.queues[queue].map(|spec| spec.parent)).flatten();
        stated.or_else(|| (queue == DEFAULT).then_some(ROOT))
    }

    fn way(&self, queue: usize) -> Vec<usize> {
        let (mut way, mut at) = (Vec::new(), Some(queue));
        while let Some(queue) = at.filter(|queue| *queue != ROOT && !way.contains(queue)) {
            at = self.parent(queue).or_else(|| self.former[queue].map(|former| former.parent));
            way.push(queue);
        }
        way.push(ROOT);
        way
    }

    fn is_in_use(&self, queue: usize) -> bool {
        let of_pods = self.pods.iter().flatten().filter_map(|pod| Some((pod.queue?, pod.amounts)));
        let mut all = of_pods.chain(self.reserved.iter().flatten().copied());
        all.any(|(at, amounts)| amounts != [0; 3] && self.way(at).contains(&queue))
    }

    pub(super) fn delete(&mut self, queue: usize) {
        let place = self.parent(queue).filter(|_| queue != DEFAULT && self.is_in_use(queue));
        if self.queues[queue].take().is_some() {
            self.former[queue] = place.map(|parent| Former { parent, told_by: None });
        }
    }

    /// Takes in the path that a pod's binding wrote, from its queue up to `root`.
    pub(super) fn tell(&mut self, pod: usize, path: [usize; 4]) {
        for (queue, parent) in path.iter().zip(&path[1..]) {
            if self.exists(*queue) {
                return;
            }
            let known = self.former[*queue];
            if known.is_none_or(|known| known.told_by.is_some_and(|teller| teller < pod)) {
                self.former[*queue] = Some(Former { parent: *parent, told_by: Some(pod) });
            } else if known.is_some_and(|known| known.parent != *parent) {
                return;
            }
        }
    }

    pub(super) fn forget_unused_places(&mut self) {
        let before = *self;
        for queue in (0..QUEUES).filter(|queue| before.exists(*queue) || !before.is_in_use(*queue)) {
            self.former[queue] = None;
        }
    }

    /// Writes the places as lines of a scenario.
    pub(super) fn places(&self) -> String {
        let line = |(queue, former): (usize, &Option<Former>)| {
            let Former { parent, told_by } = (*former)?;
            let told = told_by.map(|pod| format!(" created={pod} by=p{pod}")).unwrap_or_default();
            Some(format!("place {} below={}{told}\n", NAMES[queue], NAMES[parent]))
        };
        self.former.iter().enumerate().filter_map(line).collect()
    }
}
