//! One table from key to action. The help overlay is printed from it.
