//! By how much a recording that is still being written has grown.

/// The result of `refresh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub new_samples: usize,
    /// Whether more may be written.
    pub growing: bool,
}
