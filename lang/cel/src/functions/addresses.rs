//! IP addresses and networks.
//! Upstream: k8s.io/apiserver pkg/cel/library/ip.go and cidr.go over Go's net/netip, of which the messages are.
//! Addresses have no zone and are no IPv4 ones written as IPv6; a network keeps the address it was written with.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::{Arguments, This},
    objects::Opaque,
};

use super::urls::quoted;
use crate::charge::{failed, pay};

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    // `ip(string)`, and `ip()` of a network.
    root.add_function("ip", |ftx: &FunctionContext, Arguments(args): Arguments| {
        match (&ftx.this, args.as_slice()) {
            (Some(this), []) => network(this).map(|it| Value::Opaque(Arc::new(Address(it.address)))),
            (None, [Value::String(text)]) => address_of(ftx, text).map(|it| Value::Opaque(Arc::new(Address(it)))),
            _ => Err(ExecutionError::NoSuchOverload),
        }
    });
    root.add_function("isIP", |ftx: &FunctionContext, text: Arc<String>| {
        pay(ftx, text.len() as u64 / 10)?;
        Ok::<_, ExecutionError>(read(&text).is_ok())
    });
    root.add_function("ip.isCanonical", |ftx: &FunctionContext, text: Arc<String>| {
        Ok::<_, ExecutionError>(address_of(ftx, &text)?.to_string() == *text)
    });
    root.add_function("family", |This(this): This<Value>| {
        Ok::<i64, ExecutionError>(if address(&this)?.is_ipv4() { 4 } else { 6 })
    });
    let questions: [(&str, fn(IpAddr) -> bool); 5] = [
        ("isUnspecified", |it| it.is_unspecified()),
        ("isLoopback", |it| it.is_loopback()),
        ("isLinkLocalMulticast", is_link_local_multicast),
        ("isLinkLocalUnicast", is_link_local_unicast),
        ("isGlobalUnicast", is_global_unicast),
    ];
    for (name, holds) in questions {
        root.add_function(name, move |This(this): This<Value>| {
            Ok::<_, ExecutionError>(holds(address(&this)?))
        });
    }
    root.add_function("cidr", |ftx: &FunctionContext, text: Arc<String>| {
        network_of(ftx, &text).map(|it| Value::Opaque(Arc::new(it)))
    });
    root.add_function("isCIDR", |ftx: &FunctionContext, text: Arc<String>| {
        pay(ftx, text.len() as u64 / 10)?;
        Ok::<_, ExecutionError>(Network::read(&text).is_ok())
    });
    root.add_function(
        "containsIP",
        |ftx: &FunctionContext, This(this): This<Value>, other: Value| {
            let other = match &other {
                // Upstream says no more when it is no address.
                Value::String(text) => address_of(ftx, text).map_err(|_| ExecutionError::NoSuchOverload)?,
                other => address(other)?,
            };
            Ok::<_, ExecutionError>(network(&this)?.contains(other))
        },
    );
    root.add_function(
        "containsCIDR",
        |ftx: &FunctionContext, This(this): This<Value>, other: Value| {
            let other = match &other {
                Value::String(text) => network_of(ftx, text)?,
                other => network(other)?,
            };
            let this = network(&this)?;
            Ok::<_, ExecutionError>(this.bits <= other.bits && this.contains(other.address))
        },
    );
    root.add_function("prefixLength", |This(this): This<Value>| {
        Ok::<i64, ExecutionError>(network(&this)?.bits.into())
    });
    root.add_function("masked", |This(this): This<Value>| {
        network(&this).map(|it| Value::Opaque(Arc::new(it.masked())))
    });
}

/// The text of an address or a network, for `string(…)`.
pub fn text(value: &dyn Opaque) -> Option<String> {
    if let Some(Address(it)) = value.downcast_ref() {
        return Some(it.to_string());
    }
    value
        .downcast_ref::<Network>()
        .map(|it| format!("{}/{}", it.address, it.bits))
}

#[derive(Debug, PartialEq, Eq)]
struct Address(IpAddr);

impl Opaque for Address {
    fn runtime_type_name(&self) -> &str {
        "net.IP"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// No more than the address has.
    bits: u8,
}

impl Opaque for Network {
    fn runtime_type_name(&self) -> &str {
        "net.CIDR"
    }
}

impl Network {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |message: &str| {
            let text = quoted(text.as_bytes());
            format!("network address parse error during conversion from string: netip.ParsePrefix({text}): {message}")
        };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
        let (address, zone) = parse(address.as_bytes()).map_err(|it| wrong(&it))?;
        if zone {
            return Err(wrong("IPv6 zones cannot be present in a prefix"));
        }
        let bad = || wrong(&format!("bad bits after slash: {}", quoted(bits.as_bytes())));
        // No sign, and no zero before other digits.
        if bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9') {
            return Err(bad());
        }
        let bits: i64 = bits.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match u8::try_from(bits) {
            Ok(bits) if bits <= most => Ok(Self {
                address: unmapped(address, text)?,
                bits,
            }),
            _ => Err(wrong("prefix length out of range")),
        }
    }

    fn masked(self) -> Self {
        Self {
            address: masked(self.address, self.bits),
            ..self
        }
    }

    fn contains(self, other: IpAddr) -> bool {
        self.address.is_ipv4() == other.is_ipv4() && self.masked().address == masked(other, self.bits)
    }
}

/// The first bits of an address, and zeros.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
            Ipv4Addr::from_bits(it.to_bits() & mask).into()
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
            Ipv6Addr::from_bits(it.to_bits() & mask).into()
        }
    }
}

fn is_link_local_multicast(it: IpAddr) -> bool {
    match it {
        IpAddr::V4(it) => it.octets()[..3] == [224, 0, 0],
        IpAddr::V6(it) => it.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(it: IpAddr) -> bool {
    match it {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    }
}

/// Private addresses are global ones too.
fn is_global_unicast(it: IpAddr) -> bool {
    let special = it.is_unspecified() || it.is_loopback() || it.is_multicast() || is_link_local_unicast(it);
    !special && it != Ipv4Addr::BROADCAST
}

fn address(value: &Value) -> Result<IpAddr, ExecutionError> {
    match value {
        Value::Opaque(it) => it.downcast_ref::<Address>().map(|it| it.0),
        _ => None,
    }
    .ok_or(ExecutionError::NoSuchOverload)
}

fn network(value: &Value) -> Result<Network, ExecutionError> {
    match value {
        Value::Opaque(it) => it.downcast_ref::<Network>().copied(),
        _ => None,
    }
    .ok_or(ExecutionError::NoSuchOverload)
}

fn address_of(ftx: &FunctionContext, text: &str) -> Result<IpAddr, ExecutionError> {
    pay(ftx, text.len() as u64 / 10)?;
    read(text).map_err(|it| failed(ftx.name, &it))
}

fn network_of(ftx: &FunctionContext, text: &str) -> Result<Network, ExecutionError> {
    pay(ftx, text.len() as u64 / 10)?;
    Network::read(text).map_err(|it| {
        // Upstream says so twice.
        let message = format!("network address parse error during conversion from string: {it}");
        failed(ftx.name, &message)
    })
}

/// An address as Kubernetes takes it.
fn read(text: &str) -> Result<IpAddr, String> {
    let shown = || quoted(text.as_bytes());
    let (address, zone) = parse(text.as_bytes())
        .map_err(|it| format!("IP Address {} parse error during conversion from string: {it}", shown()))?;
    if zone {
        return Err(format!("IP address {} with zone value is not allowed", shown()));
    }
    unmapped(address, text)
}

fn unmapped(address: IpAddr, text: &str) -> Result<IpAddr, String> {
    match address {
        IpAddr::V6(it) if it.to_ipv4_mapped().is_some() => {
            let shown = quoted(text.as_bytes());
            Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"))
        }
        it => Ok(it),
    }
}

/// What is wrong with an address, and from where on.
struct Wrong<'a>(&'static str, &'a [u8]);

/// An address and whether it has a zone, as Go reads it.
pub fn parse(text: &[u8]) -> Result<(IpAddr, bool), String> {
    let read = match text.iter().find(|it| matches!(it, b'.' | b':' | b'%')) {
        Some(b'.') => four(text).map(|it| (it.into(), false)),
        Some(b':') => match text.iter().position(|it| *it == b'%') {
            None => sixteen(text).map(|it| (it.into(), false)),
            Some(at) if at + 1 == text.len() => Err(Wrong("zone must be a non-empty string", b"")),
            Some(at) => sixteen(&text[..at]).map(|it| (it.into(), true)),
        },
        Some(_) => Err(Wrong("missing IPv6 address", b"")),
        None => Err(Wrong("unable to parse IP", b"")),
    };
    read.map_err(|Wrong(message, at)| match at {
        [] => format!("ParseAddr({}): {message}", quoted(text)),
        at => format!("ParseAddr({}): {message} (at {})", quoted(text), quoted(at)),
    })
}

/// The bytes of an IPv4 address.
fn four(text: &[u8]) -> Result<[u8; 4], Wrong<'_>> {
    let mut bytes = [0; 4];
    let mut whole = 0;
    // The number that is being read, if it has a digit yet.
    let mut number: Option<u8> = None;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' if number == Some(0) => return Err(Wrong("IPv4 field has octet with leading zero", b"")),
            b'0'..=b'9' => {
                let longer = number.unwrap_or(0).checked_mul(10);
                let longer = longer.and_then(|it| it.checked_add(byte - b'0'));
                number = Some(longer.ok_or(Wrong("IPv4 field has value >255", b""))?);
            }
            b'.' => match number.take() {
                Some(it) if at + 1 < text.len() => {
                    if whole == 3 {
                        return Err(Wrong("IPv4 address too long", b""));
                    }
                    bytes[whole] = it;
                    whole += 1;
                }
                _ => return Err(Wrong("IPv4 field must have at least one digit", &text[at..])),
            },
            _ => return Err(Wrong("unexpected character", &text[at..])),
        }
    }
    match number {
        Some(it) if whole == 3 => {
            bytes[3] = it;
            Ok(bytes)
        }
        _ => Err(Wrong("IPv4 address too short", b"")),
    }
}

/// The bytes of an IPv6 address without a zone.
fn sixteen(text: &[u8]) -> Result<[u8; 16], Wrong<'_>> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    // Where `::` stands.
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = text.strip_prefix(b"::") {
        gap = Some(0);
        rest = after;
        if after.is_empty() {
            return Ok(bytes);
        }
    }
    while filled < 16 {
        let digits = rest.iter().take_while(|it| it.is_ascii_hexdigit()).count();
        if digits > 4 {
            return Err(Wrong("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err(Wrong("each colon-separated field must have at least one digit", rest));
        }
        if rest.get(digits) == Some(&b'.') {
            if gap.is_none() && filled != 12 {
                return Err(Wrong(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ));
            }
            if filled > 12 {
                return Err(Wrong(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                ));
            }
            bytes[filled..filled + 4].copy_from_slice(&four(rest)?);
            filled += 4;
            rest = b"";
            break;
        }
        let (group, after) = rest.split_at(digits);
        let group = group.iter().fold(0, |made: u16, it| made << 4 | u16::from(digit(*it)));
        bytes[filled..filled + 2].copy_from_slice(&group.to_be_bytes());
        filled += 2;
        rest = match after {
            [] => after,
            [b':'] => return Err(Wrong("colon must be followed by more characters", after)),
            [b':', b':', ..] if gap.is_some() => return Err(Wrong("multiple :: in address", &after[1..])),
            [b':', b':', after @ ..] => {
                gap = Some(filled);
                after
            }
            [b':', after @ ..] => after,
            _ => return Err(Wrong("unexpected character, want colon", after)),
        };
        if rest.is_empty() {
            break;
        }
    }
    if !rest.is_empty() {
        return Err(Wrong("trailing garbage after address", rest));
    }
    match gap {
        None if filled < 16 => Err(Wrong("address string too short", b"")),
        Some(_) if filled == 16 => Err(Wrong("the :: must expand to at least one field of zeros", b"")),
        Some(gap) => {
            bytes[gap..].rotate_right(16 - filled);
            Ok(bytes)
        }
        None => Ok(bytes),
    }
}

/// The value of a hexadecimal digit.
pub fn digit(it: u8) -> u8 {
    match it {
        b'0'..=b'9' => it - b'0',
        b'a'..=b'f' => it - b'a' + 10,
        b'A'..=b'F' => it - b'A' + 10,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_exactly_as_in_the_standard_library() {
        let texts = [
            "1.2.3.4",
            "255.255.255.255",
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1::8",
            "1:2:3:4:5:6:1.2.3.4",
            "64:ff9b::1.2.3.4",
            "FE80::AbCd",
            // And not these.
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "256.2.3.4",
            "1..2.3",
            "1.2.3.",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4::5:6:7:8",
            "1::2::3",
            "12345::",
            ":1",
            "1:",
            "1:2:3:4:5:6:7:1.2.3.4",
            "1::1.2.3.4:5",
            "",
        ];
        for text in texts {
            assert_eq!(
                parse(text.as_bytes()).ok(),
                text.parse().ok().map(|it| (it, false)),
                "{text}"
            );
        }
    }

    #[test]
    fn no_text_breaks_the_reader() {
        let parts = [
            "",
            ":",
            "::",
            "1",
            "f",
            "0",
            ".",
            "%",
            "255",
            "é",
            "/",
            "1.2.3.4",
            "1:2:3:4:5:6",
        ];
        for one in parts {
            for two in parts {
                for three in parts {
                    for four in parts {
                        let text = [one, two, three, four].concat();
                        assert_eq!(
                            read(&text).is_ok(),
                            text.parse::<IpAddr>().is_ok_and(|it| unmapped(it, "").is_ok()),
                            "{text}"
                        );
                        let _ = Network::read(&text);
                    }
                }
            }
        }
    }

    #[test]
    fn a_network_of_all_addresses_has_no_bits() {
        let all = Network::read("1.2.3.4/0").unwrap();
        assert!(all.contains(Ipv4Addr::BROADCAST.into()));
        assert!(!all.contains(Ipv6Addr::UNSPECIFIED.into()));
        assert_eq!(text(&all.masked()).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(text(&all).as_deref(), Some("1.2.3.4/0"));
    }
}
