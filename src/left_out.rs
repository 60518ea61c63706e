//! How is a rule left out, to see that it is missed?
//!
//! The rules of the books, of admission and of reclaim are three sets, each beside the code that holds them, and a test leaves out one of one set, in its own thread. Outside of tests the
//! answer is a constant, and what asks for it costs nothing.

/// For an enum of rules: `holds`, which says whether one is in force, and in tests `Without`, which leaves one out until it is dropped.
macro_rules! can_be_left_out {
    ($visible:vis $rule:ty) => {
        /// Whether a rule is in force.
        #[cfg(not(test))]
        #[inline]
        $visible const fn holds(_: $rule) -> bool {
            true
        }

        #[cfg(test)]
        thread_local! {
            static LEFT_OUT: std::cell::Cell<Option<$rule>> = const { std::cell::Cell::new(None) };
        }

        /// Whether a rule is in force.
        #[cfg(test)]
        $visible fn holds(rule: $rule) -> bool {
            LEFT_OUT.get() != Some(rule)
        }

        /// Leaves a rule out, in this thread, until the value is dropped.
        #[cfg(test)]
        $visible struct Without(());

        #[cfg(test)]
        impl Without {
            $visible fn rule(rule: $rule) -> Self {
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
