//! Which requests get another answer than usual? What a scenario orders with `answer`.

use std::time::Duration;

use super::request::Request;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The usual one: an order of it lets requests pass before a later order has its turn.
    Usual,
    /// It is refused with this code, and not carried out.
    Code(u16),
    /// It is carried out this much later, also if its sender is gone by then.
    Late(Duration),
    /// It is carried out, and answered this much later.
    Slow(Duration),
    /// It is carried out, and the connection breaks before the answer.
    Lost,
    /// It is carried out, and never answered.
    Never,
    /// The connection breaks, and it is not carried out.
    Unreachable,
    /// It is refused this much later with code 500, as where a webhook does not answer.
    Hangs(Duration),
    /// A list shows the objects as they were at this version.
    Old(u64),
}

/// An order for the next requests of a kind.
#[derive(Clone, Debug)]
pub struct Order {
    /// The words of the request, as [`Request::action`] returns them.
    pub action: String,
    /// The name of its object; empty for any.
    pub subject: String,
    /// The namespace of its object; empty for any.
    pub namespace: String,
    /// The program that sends it; empty for any.
    pub sender: String,
    /// How many requests get this answer.
    pub times: usize,
    /// The answer.
    pub answer: Answer,
}

/// The orders that are not done.
#[derive(Debug, Default)]
pub struct Orders(Vec<Order>);

impl Orders {
    /// Adds an order.
    pub fn add(&mut self, order: Order) {
        self.0.push(order);
    }

    /// Drops all orders.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the first order that was not needed.
    #[must_use]
    pub fn left(&self) -> Option<&Order> {
        self.0.iter().find(|order| order.times != usize::MAX)
    }

    /// Returns the ordered answer to this request, and counts it; `None` for the usual one.
    pub fn take(&mut self, sender: &str, request: &Request) -> Option<Answer> {
        let action = request.action();
        let is_for = |wanted: &str, seen: &str| wanted.is_empty() || wanted == seen;
        let fits = |order: &Order| {
            order.action == action
                && is_for(&order.subject, request.subject())
                && is_for(&order.namespace, &request.namespace)
                && is_for(&order.sender, sender)
        };
        let at = self.0.iter().position(fits)?;
        let order = self.0.get_mut(at)?;
        let answer = order.answer;
        if order.times != usize::MAX {
            order.times -= 1;
            if order.times == 0 {
                self.0.remove(at);
            }
        }
        Some(answer)
    }
}
