//! Addresses and ranges of addresses, written so that nobody reads them otherwise.

use kube_store::status::FieldError;
use serde_json::json;
use std::net::IpAddr;

/// Errors of an address. Leading zeros are refused: some read them as octal numbers.
pub(super) fn address(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    if text.parse::<IpAddr>().is_err() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(field, &json!(text), detail));
    }
}

/// Errors of an address that others cannot reach.
pub(super) fn reachable(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    if text.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback()) {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.push(FieldError::invalid(field, &json!(text), detail));
    }
    reachable_here(text, field, errors);
}

/// Errors of an address of what is behind a Service. Upstream refuses the loopback range here too, for there each pod has its own.
/// Ours are those of one machine, where the servers that Services lead to run, this one first.
pub(super) fn reachable_here(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    let Ok(address) = text.parse::<IpAddr>() else { return };
    let detail = match address.to_canonical() {
        it if it.is_unspecified() => format!("may not be unspecified ({text})"),
        IpAddr::V4(it) if it.is_link_local() => LINK_LOCAL.to_owned(),
        IpAddr::V6(it) if it.is_unicast_link_local() => LINK_LOCAL.to_owned(),
        IpAddr::V4(it) if it.octets()[..3] == [224, 0, 0] => LINK_LOCAL_MULTICAST.to_owned(),
        IpAddr::V6(it) if it.segments()[0] & 0xff0f == 0xff02 => LINK_LOCAL_MULTICAST.to_owned(),
        _ => return,
    };
    errors.push(FieldError::invalid(field, &json!(text), detail));
}

const LINK_LOCAL: &str = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
const LINK_LOCAL_MULTICAST: &str = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";

/// A range of addresses: how many of its leading bits count, and what they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    address: IpAddr,
    bits: u32,
}

/// An address as a number, and how many bits it has.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(it) => (u128::from(u32::from(it)), 32),
        IpAddr::V6(it) => (u128::from(it), 128),
    }
}

impl Range {
    /// The leading bits of an address, as many as those of the range.
    fn prefix(self, of: IpAddr) -> u128 {
        let (number, width) = number(of);
        number.checked_shr(width - self.bits).unwrap_or_default()
    }

    /// Whether its addresses are those of the older of the two families.
    pub fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether another range lies within this one, and is smaller.
    pub fn has_within(self, other: Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.bits < other.bits
            && self.prefix(self.address) == self.prefix(other.address)
    }

    fn is_exact(self) -> bool {
        let (number, width) = number(self.address);
        let rest = width - self.bits;
        rest >= 128 && number == 0 || rest < 128 && number & ((1 << rest) - 1) == 0
    }
}

/// How many bits of a range count, written without leading zeros.
pub(crate) fn plain_bits(text: &str) -> Option<u32> {
    let plain = text == "0" || !text.starts_with('0') && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Errors of a range, and what it is.
pub(super) fn range(text: &str, field: &str, errors: &mut Vec<FieldError>) -> Option<Range> {
    let read = || {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let bits = plain_bits(bits)?;
        (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(Range { address, bits })
    };
    let Some(range) = read() else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(field, &json!(text), detail));
        return None;
    };
    if !range.is_exact() {
        let detail = "must not have bits set beyond the prefix length";
        errors.push(FieldError::invalid(field, &json!(text), detail));
    }
    Some(range)
}
