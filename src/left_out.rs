//! How is a rule left out, to see that it is missed?
//!
//! The rules of the books, of admission and of reclaim are three sets, each beside the code that holds them, and a test leaves out one of one set, in its own thread. Outside of tests the
//! answer is a constant, and what asks for it costs nothing.

/// An enum of rules, with `holds`, which says whether one is in force, and in tests `ALL`, and `Without`, which leaves one out until it is dropped.
macro_rules! can_be_left_out {
    ($(#[$about:meta])* $visible:vis enum $rules:ident { $($(#[$meaning:meta])* $rule:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $visible enum $rules {
            $($(#[$meaning])* $rule,)+
        }

        /// Every rule, in the order of the text.
        #[cfg(test)]
        $visible const ALL: &[$rules] = &[$($rules::$rule),+];

        /// Whether a rule is in force.
        #[cfg(not(test))]
        #[inline]
        $visible const fn holds(_: $rules) -> bool {
            true
        }

        #[cfg(test)]
        thread_local! {
            static LEFT_OUT: std::cell::Cell<Option<$rules>> = const { std::cell::Cell::new(None) };
        }

        /// Whether a rule is in force.
        #[cfg(test)]
        $visible fn holds(rule: $rules) -> bool {
            LEFT_OUT.get() != Some(rule)
        }

        /// Leaves a rule out, in this thread, until the value is dropped.
        #[cfg(test)]
        $visible struct Without(());

        #[cfg(test)]
        impl Without {
            $visible fn rule(rule: $rules) -> Self {
                LEFT_OUT.set(Some(rule));
                Self(())
            }
        }

        #[cfg(test)]
        impl Drop for Without {
            fn drop(&mut self) {
                LEFT_OUT.set(None);
            }
        }
    };
}

pub(crate) use can_be_left_out;
