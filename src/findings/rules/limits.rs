//! Rules about limits at which calls fail.

pub mod limit_reached;
