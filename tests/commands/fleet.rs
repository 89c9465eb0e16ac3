//! `fleet` with local processes as hosts: a script in place of ssh runs the command of the host here. Among them are hosts that print a
//! banner, hang, die, print garbage, or have no stalltop.

mod copy;
mod host_script;
mod once;
mod replay;
mod screen;
