//! Ports for programs that want to be told one.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    sync::atomic::{AtomicU16, Ordering},
};

/// Below those that the system gives to connections (`ip_local_port_range`) and to whoever asks for port 0, and below
/// node ports: between a look at one of them and the start of a program nobody else takes it.
const PORTS: Range<u16> = 20_000..30_000;
/// How many are looked at from one start: runs side by side seldom look at the same.
const SPAN: u16 = 10;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that nobody has, and that this process tells nobody else.
///
/// # Errors
/// When somebody has each of them.
pub(crate) fn free() -> Result<u16, String> {
    let count = PORTS.end - PORTS.start;
    let begin = u16::try_from(std::process::id() % u32::from(count / SPAN)).unwrap_or_default() * SPAN;
    (0..count)
        .map(|_| PORTS.start + (begin + NEXT.fetch_add(1, Ordering::Relaxed) % count) % count)
        .find(|it| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *it)).is_ok())
        .ok_or_else(|| format!("no port of {}-{} is free", PORTS.start, PORTS.end - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_told_twice_or_while_somebody_has_it() {
        let first = free().unwrap();
        // If that fails, somebody has it.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1));
        let second = free().unwrap();
        assert!(second != first && second != first + 1, "{first}, {second}");
    }
}
