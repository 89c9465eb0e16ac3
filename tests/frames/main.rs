//! Frames from machines made by hand: golden ones at several sizes, all sizes without a panic, hostile names, no colour,
//! and what each key does.

mod colours;
mod golden;
mod hostile;
mod keys;
mod machine;
mod scenes;
mod screen;
mod sizes;
