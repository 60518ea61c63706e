//! Rows O3 and O10: the Job of the documents, and pods that name another PodGroup than their owner.

pub(super) mod elsewhere;
pub(super) mod jobs;
