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

/// Errors of a range, and what it is.
pub(super) fn range(text: &str, field: &str, errors: &mut Vec<FieldError>) -> Option<Range> {
    let read = || {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let plain = bits == "0" || !bits.starts_with('0') && bits.bytes().all(|it| it.is_ascii_digit());
        let bits: u32 = bits.parse().ok().filter(|_| plain)?;
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

/// Errors of an address that traffic is sent to. Upstream refuses the loopback range too: there every pod has its own. Here the
/// servers that are reached by Services, this one first, run on one machine.
pub(super) fn reachable(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(field, &json!(text), detail));
    let Ok(address) = text.parse::<IpAddr>().map(|it| it.to_canonical()) else {
        return wrong("must be a valid IP address");
    };
    let (link_local, link_local_group) = match address {
        IpAddr::V4(it) => (it.is_link_local(), it.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(it) => (it.is_unicast_link_local(), it.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        wrong(&format!("may not be unspecified ({text})"));
    }
    if link_local {
        wrong("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_group {
        wrong("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}
