//! Recordings: what goes in comes out, whatever happens to the bytes in between.

#[path = "recording/damage.rs"]
mod damage;
#[path = "recording/generator.rs"]
mod generator;
#[path = "recording/recorder.rs"]
mod recorder;
#[path = "recording/round_trip.rs"]
mod round_trip;
#[path = "recording/support.rs"]
mod support;
