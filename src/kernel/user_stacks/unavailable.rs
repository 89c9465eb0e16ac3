//! Replaces `user_stacks` in a build without the feature `user-stacks`, and on other architectures than x86-64: none is read.

use super::root::Root;
use super::stacks::Candidate;
use crate::sample::stacks::UserStack;
use crate::sample::{Absent, Reading};

#[derive(Debug)]
pub struct UserStackReader;

impl UserStackReader {
    pub fn new(_: &Root) -> UserStackReader {
        UserStackReader
    }

    /// Does nothing.
    pub fn request(&mut self, _: &[Candidate]) {}

    /// Always `Unsupported`.
    pub fn sample(&mut self) -> Reading<Vec<UserStack>> {
        Err(Absent::Unsupported)
    }
}
