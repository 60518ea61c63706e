//! What can happen in a state.

/// A request of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Bind,
    Evict,
    Fence,
}

/// An action that changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Actions of people and other programs.
    Create {
        pod: usize,
    },
    Delete {
        pod: usize,
    },
    Touch {
        pod: usize,
    },
    ClearHolder,
    DeleteLease,
    Stop {
        proc: usize,
    },
    // Faults.
    Kill {
        proc: usize,
    },
    /// The process stands still, or cannot renew its lease, until its clock has passed the renew deadline.
    Freeze {
        proc: usize,
    },
    /// The answer to a renewal that was sent in time comes after the deadline.
    Renew {
        proc: usize,
    },
    ListByItself {
        proc: usize,
        kind: usize,
        at: u8,
    },
    WinUnanswered {
        proc: usize,
    },
    TimeOut {
        proc: usize,
        pod: usize,
        what: What,
    },
    LoseAnswer {
        proc: usize,
        pod: usize,
        what: What,
    },
    Refuse {
        proc: usize,
        pod: usize,
    },
    Busy {
        proc: usize,
        pod: usize,
    },
    /// The pod was read after one answer 409 too many.
    TireOfConflicts {
        proc: usize,
        pod: usize,
    },
    LoseRead {
        proc: usize,
        pod: usize,
    },
    GiveUpFence {
        proc: usize,
        pod: usize,
    },
    GiveUpBinding {
        proc: usize,
        pod: usize,
    },
    // Actions that the cluster performs by itself.
    Kubelet {
        pod: usize,
    },
    Replace {
        pod: usize,
    },
    LandLate {
        late: usize,
    },
    DropLate {
        late: usize,
    },
    Start {
        proc: usize,
        pods: u8,
    },
    // Actions of the processes.
    Event {
        proc: usize,
        kind: usize,
    },
    Win {
        proc: usize,
    },
    List {
        proc: usize,
        kind: usize,
        at: u8,
    },
    SendFence {
        proc: usize,
        pod: usize,
    },
    Decide {
        proc: usize,
        pod: usize,
    },
    DecideEviction {
        proc: usize,
    },
    SendBinding {
        proc: usize,
        pod: usize,
    },
    SendEviction {
        proc: usize,
        pod: usize,
    },
    Read {
        proc: usize,
        pod: usize,
    },
    LandRead {
        proc: usize,
        pod: usize,
    },
    AnswerRead {
        proc: usize,
        pod: usize,
    },
    Land {
        proc: usize,
        pod: usize,
        what: What,
    },
    Answer {
        proc: usize,
        pod: usize,
        what: What,
    },
    /// The process gives its lease up and ends. `drained`: with the annotation.
    Release {
        proc: usize,
        drained: bool,
    },
    /// The process ends without releasing its lease: it has lost it, or its drain took too long.
    End {
        proc: usize,
    },
}

impl Action {
    /// Returns whether the step is neither a fault nor an action of a person or another program.
    pub(crate) const fn is_system(self) -> bool {
        !matches!(
            self,
            Self::Create { .. }
                | Self::Delete { .. }
                | Self::Touch { .. }
                | Self::ClearHolder
                | Self::DeleteLease
                | Self::Stop { .. }
                | Self::Kill { .. }
                | Self::Freeze { .. }
                | Self::Renew { .. }
                | Self::ListByItself { .. }
                | Self::WinUnanswered { .. }
                | Self::TimeOut { .. }
                | Self::LoseAnswer { .. }
                | Self::Refuse { .. }
                | Self::Busy { .. }
                | Self::LoseRead { .. }
                | Self::TireOfConflicts { .. }
                | Self::GiveUpFence { .. }
                | Self::GiveUpBinding { .. }
        )
    }
}
