//! `record --armed`: what starts a capture, what is in it, what is kept of the directory, and the command of `--on-finding`.

mod armed_recorder;
mod bounds;
mod captures;
mod on_finding;
