//! Which rules of admission and order are in force?
//!
//! All of them. A test may leave one out to see that it is missed (`cycle::duel`); outside of tests the answer is a constant, and what asks for it costs nothing. They are in
//! the cycle and, where words of the API are read, at the border; the rules of the books and of reclaim are beside those.

crate::left_out::can_be_left_out! {
    /// A rule of docs/accounting.md, or a part of one, that can be left out by itself.
    pub(crate) enum Rule {
        /// What a group's members are charged it does not ask for again.
        A1Charged,
        /// Without minResources it asks for those that are needed now.
        A1Needed,
        /// Of several keys for the same the largest counts.
        A1Largest,
        /// `requests.NAME` and `count/pods` count as what they mean.
        A1Names,
        /// `limits.*` do not count.
        A1Limits,
        /// Nobody is admitted whom F6 refuses.
        A2,
        /// Who is admitted reserves what it asks for.
        A2Reserves,
        /// Who is owed it is admitted all the same.
        A3,
        /// A reservation shrinks by what the members are charged.
        A4,
        /// It is not in the way of its own group.
        A4Own,
        /// It is taken back when the group has its places.
        A5Places,
        /// When the group is over.
        A5Over,
        /// When it says other minResources.
        A5Minimum,
        /// When it names another queue.
        A5Queue,
        /// When the queue is closed.
        A5Closed,
        /// When the queue is broken.
        A5Broken,
        /// When the patience is over.
        A5Patience,
        /// Who rests reserves nothing.
        A5Rests,
        /// It rests twice as long each time.
        A5Twice,
        /// Up to 32 times.
        A5Most,
        /// What is reserved by right alone is taken back when the group asks in vain.
        A5Vain,
        /// Another minResources does not make the patience longer.
        A5Anew,
        /// A gang that gates hold back reserves nothing.
        A5Gated,
        /// A gang of which a part is bound keeps its reservation.
        A5Half,
        /// Unless it had its places, has them still, and asks for more.
        A5More,
        /// What a refused bind gives back is reserved.
        A5Back,
        /// But not for longer than the patience, where all are refused.
        A5Refused,
        /// In a fifo queue nobody passes the first.
        A6,
        /// Unless that can never fit.
        A6Ever,
        /// What those behind have reserved is taken back.
        A6Back,
        /// But a gang of which a part is bound is finished first.
        A6Half,
        /// Who waits for its own members does not wait for room.
        A6Members,
        /// Between sibling queues the higher priority comes first.
        P1Priority,
        /// Then who uses the smaller part of its share.
        P1Share,
        /// Then whose first group comes first.
        P1First,
        /// Within a queue the higher priority comes first.
        P2Priority,
        /// Then the older.
        P2Age,
        /// Then the name.
        P2Name,
        /// A queue is closed by its annotation.
        O1,
        /// Of which any other value is Open.
        O1Other,
    }
}
