//! A time as people write it.
