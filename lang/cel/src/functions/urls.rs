//! URLs as Go reads them.
//! Upstream: k8s.io/apiserver pkg/cel/library/urls.go over Go's net/url, of which the messages are. Nothing is made
//! canonical but the case of the scheme. Go's strings may hold any bytes; where an escape makes bytes
//! that are no text, we answer U+FFFD for each.

use std::{
    borrow::Cow,
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::This,
    objects::{Key, Map, Opaque},
};
use regex::Regex;

use super::addresses;
use crate::charge::{failed, pay};

/// A query of more parameters is taken for an empty one.
const PARAMETERS_MAX: usize = 10_000;

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    root.add_function("url", |ftx: &FunctionContext, text: Arc<String>| {
        pay(ftx, text.len() as u64 / 10)?;
        // What is asked for is a request's URL, which has no fragment; but a fragment is taken all the same.
        let read = request(&text).and_then(|_| reference(&text));
        let url = read.map_err(|it| {
            failed(
                ftx.name,
                &format!("URL parse error during conversion from string: {it}"),
            )
        })?;
        Ok(Value::Opaque(Arc::new(url)))
    });
    root.add_function("isURL", |ftx: &FunctionContext, text: Arc<String>| {
        pay(ftx, text.len() as u64 / 10)?;
        Ok::<_, ExecutionError>(request(&text).is_ok())
    });
    let texts: [(&str, fn(&Url) -> &str); 5] = [
        ("getScheme", |it| &it.scheme),
        ("getHost", |it| &it.host),
        ("getHostname", |it| hostname_and_port(&it.host).0),
        ("getPort", |it| hostname_and_port(&it.host).1),
        ("getEscapedPath", |it| &it.path),
    ];
    for (name, of) in texts {
        root.add_function(name, move |This(this): This<Value>| Ok(Value::from(of(url(&this)?))));
    }
    root.add_function("getQuery", |ftx: &FunctionContext, This(this): This<Value>| {
        let query = &url(&this)?.query;
        pay(ftx, query.len() as u64 / 10)?;
        let parameters = parameters(query).into_iter().map(|(key, values)| {
            let values = values.into_iter().map(Value::from).collect();
            (Key::from(key), Value::List(Arc::new(values)))
        });
        Ok(Value::Map(Map {
            map: Arc::new(parameters.collect()),
        }))
    });
}

fn url(value: &Value) -> Result<&Url, ExecutionError> {
    match value {
        Value::Opaque(it) => it.downcast_ref(),
        _ => None,
    }
    .ok_or(ExecutionError::NoSuchOverload)
}

/// How long the text of a URL is; `None` if it is none.
pub fn length(value: &dyn Opaque) -> Option<usize> {
    let url: &Url = value.downcast_ref()?;
    Some(url.text.len())
}

#[derive(Debug)]
pub struct Url {
    scheme: String,
    /// With the port.
    host: String,
    /// Escaped.
    path: String,
    /// As it was written.
    query: String,
    /// As Go writes it.
    text: String,
}

/// Two URLs are the same if they are written so.
impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Url {}

impl Opaque for Url {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.URL"
    }
}

/// What may be asked for: Go's `ParseRequestURI`. A `#` is nothing special to it.
pub fn request(text: &str) -> Result<Url, String> {
    let wrong = |it| format!("parse {}: {it}", quoted(text.as_bytes()));
    let request = |scheme: &str| !scheme.is_empty();
    parse(text, request).map_err(wrong)
}

/// A URL with its fragment, Go's `Parse`, of a text that may be asked for.
fn reference(text: &str) -> Result<Url, String> {
    let wrong = |text: &str, it| format!("parse {}: {it}", quoted(text.as_bytes()));
    let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
    let begins_authority = |scheme: &str| !scheme.is_empty() || !whole.starts_with("///");
    let mut url = parse(whole, begins_authority).map_err(|it| wrong(whole, it))?;
    if !fragment.is_empty() {
        let fragment = escaped(fragment, Part::Fragment).map_err(|it| wrong(text, it))?;
        url.text.push('#');
        url.text.push_str(&fragment);
    }
    Ok(url)
}

/// Reads a URL without a fragment, in which `//` may begin an authority after some schemes.
fn parse(text: &str, has_authority: impl Fn(&str) -> bool) -> Result<Url, String> {
    if text.bytes().any(|it| it.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    let (scheme, rest) = scheme(text)?;
    let scheme = scheme.to_ascii_lowercase();
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let mut written = String::with_capacity(text.len());
    if !scheme.is_empty() {
        written.push_str(&scheme);
        written.push(':');
    }
    let mut host = String::new();
    let mut path = String::new();
    if text == "*" {
        path.push('*');
        written.push('*');
    } else if rest.starts_with('/') {
        let mut rest = rest;
        if let Some(after) = rest.strip_prefix("//")
            && has_authority(&scheme)
        {
            let (before, after) = after.split_at(after.find('/').unwrap_or(after.len()));
            rest = after;
            let authority = authority(&scheme, before)?;
            let is_named = !authority.host.is_empty() || authority.user.is_some();
            if is_named || !rest.is_empty() && !scheme.is_empty() {
                written.push_str("//");
            }
            if let Some(user) = &authority.user {
                written.push_str(user);
                written.push('@');
            }
            written.push_str(&escape(&authority.host, Part::Host));
            host = lossy(&authority.host);
        }
        path = escaped(rest, Part::Path)?;
        written.push_str(&path);
    } else if scheme.is_empty() {
        return Err("invalid URI for request".to_owned());
    } else {
        // As in `mailto:a@b`: no path, and kept as it is.
        written.push_str(rest);
    }
    if let Some(query) = query {
        written.push('?');
        written.push_str(query);
    }
    Ok(Url {
        scheme,
        host,
        path,
        query: query.unwrap_or_default().to_owned(),
        text: written,
    })
}

/// The scheme, which may be empty, and what follows it.
fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme"),
        Some((scheme, rest))
            if scheme.starts_with(|it: char| it.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it)) =>
        {
            Ok((scheme, rest))
        }
        _ => Ok(("", text)),
    }
}

struct Authority {
    /// Escaped.
    user: Option<String>,
    host: Vec<u8>,
}

fn authority(scheme: &str, text: &str) -> Result<Authority, String> {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, text),
    };
    let host = read_host(scheme, host)?;
    let user = user.map(read_user).transpose()?;
    Ok(Authority { user, host })
}

fn read_user(text: &str) -> Result<String, String> {
    let may_be = |it: u8| it.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&it);
    if !text.bytes().all(may_be) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let read = |it: &str| Ok::<_, String>(escape(&unescape(it.as_bytes(), Part::User)?, Part::User));
    match text.split_once(':') {
        Some((name, password)) => Ok(format!("{}:{}", read(name)?, read(password)?)),
        None => read(text),
    }
}

fn read_host(scheme: &str, text: &str) -> Result<Vec<u8>, String> {
    match text.rfind('[') {
        Some(0) => read_literal(text),
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            // Only where colons have been taken for ever are there more of them than the port's.
            let strict = matches!(scheme, "http" | "https");
            let colon = if strict { text.find(':') } else { text.rfind(':') };
            check_port(&text[colon.unwrap_or(text.len())..])?;
            unescape(text.as_bytes(), Part::Host)
        }
    }
}

/// An IPv6 address in brackets, and a port.
fn read_literal(text: &str) -> Result<Vec<u8>, String> {
    let (name, port) = text
        .strip_prefix('[')
        .and_then(|it| it.rsplit_once(']'))
        .ok_or("missing ']' in host")?;
    check_port(port)?;
    // A zone may have more escapes than a host.
    let (address, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    let mut name = unescape(address.as_bytes(), Part::Host)?;
    name.extend(unescape(zone.as_bytes(), Part::Zone)?);
    match addresses::parse(&name).map_err(|it| format!("invalid host: {it}"))? {
        (IpAddr::V4(_), _) => Err("invalid IP-literal".to_owned()),
        (IpAddr::V6(_), _) => Ok([b"[", name.as_slice(), b"]", port.as_bytes()].concat()),
    }
}

fn check_port(text: &str) -> Result<(), String> {
    if is_port(text) {
        Ok(())
    } else {
        Err(format!("invalid port {} after host", quoted(text.as_bytes())))
    }
}

/// Whether it is no port, or a colon and digits, if any.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()))
}

/// The name of a host without brackets, and its port.
fn hostname_and_port(host: &str) -> (&str, &str) {
    let (name, port) = match host.rfind(':') {
        Some(at) if is_port(&host[at..]) => (&host[..at], &host[at + 1..]),
        _ => (host, ""),
    };
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    (inner.unwrap_or(name), port)
}

/// The parameters of a query; those that cannot be read are left out.
fn parameters(query: &str) -> HashMap<String, Vec<String>> {
    let mut parameters: HashMap<String, Vec<String>> = HashMap::new();
    if query.bytes().filter(|it| *it == b'&').count() >= PARAMETERS_MAX {
        return parameters;
    }
    let read = |it: &str| unescape(it.as_bytes(), Part::Query).map(|it| lossy(&it));
    for parameter in query.split('&') {
        if parameter.is_empty() || parameter.contains(';') {
            continue;
        }
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if let (Ok(key), Ok(value)) = (read(key), read(value)) {
            parameters.entry(key).or_default().push(value);
        }
    }
    parameters
}

/// Parts of a URL: each has its own characters that need no escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    User,
    Host,
    /// Of an IPv6 address.
    Zone,
    Path,
    Query,
    Fragment,
}

impl Part {
    fn keeps(self, it: u8) -> bool {
        let more: &[u8] = match self {
            Self::User => b"$&+,;=",
            Self::Host | Self::Zone => b"!$&'()*+,;=:[]<>\"",
            Self::Path => b"$&+,/:;=@",
            Self::Query => b"",
            Self::Fragment => b"!$&()*+,/:;=?@",
        };
        it.is_ascii_alphanumeric() || b"-_.~".contains(&it) || more.contains(&it)
    }
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let in_host = matches!(part, Part::Host | Part::Zone);
    let mut made = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        match (*first, after) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let byte = addresses::digit(*high) << 4 | addresses::digit(*low);
                let allowed = match part {
                    // A host escapes what is not ASCII, and nothing else.
                    Part::Host => byte >= 0x80 || byte == b'%',
                    // Windows has spaces in zones.
                    Part::Zone => Part::Host.keeps(byte) || matches!(byte, b'%' | b' '),
                    _ => true,
                };
                if !allowed {
                    return Err(format!("invalid URL escape {}", quoted(&rest[..3])));
                }
                made.push(byte);
                rest = after;
                continue;
            }
            (b'%', _) => {
                let shown = quoted(&rest[..rest.len().min(3)]);
                return Err(format!("invalid URL escape {shown}"));
            }
            (b'+', _) if part == Part::Query => made.push(b' '),
            (byte, _) if in_host && byte.is_ascii() && !part.keeps(byte) => {
                return Err(format!("invalid character {} in host name", quoted(&[byte])));
            }
            (byte, _) => made.push(byte),
        }
        rest = after;
    }
    Ok(made)
}

fn escape(bytes: &[u8], part: Part) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut made = String::with_capacity(bytes.len());
    for byte in bytes {
        if part.keeps(*byte) {
            made.push(char::from(*byte));
        } else {
            made.push('%');
            made.push(char::from(DIGITS[usize::from(byte >> 4)]));
            made.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    made
}

/// A text as it was written, if it may stand there so; else with all the escapes it needs.
fn escaped(text: &str, part: Part) -> Result<String, String> {
    let bytes = unescape(text.as_bytes(), part)?;
    let may_stand = |it: u8| part.keeps(it) || b"!$&'()*+,;=:@[]%".contains(&it);
    Ok(if text.bytes().all(may_stand) {
        text.to_owned()
    } else {
        escape(&bytes, part)
    })
}

fn lossy(bytes: &[u8]) -> String {
    let mut made = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        made.push_str(chunk.valid());
        made.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    made
}

/// A text in quotes as Go's `%q` has it: what cannot be seen is escaped.
pub fn quoted(bytes: &[u8]) -> String {
    /// What stands for itself, in one go: texts may be long. Go knows Unicode of this age.
    static PLAIN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"[[ \p{L}\p{M}\p{N}\p{P}\p{S}]&&\p{Age=15.0}--["\\]]+"#).expect("the expression is valid")
    });
    let mut made = String::with_capacity(bytes.len() + 2);
    made.push('"');
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        let mut done = 0;
        for plain in PLAIN.find_iter(text) {
            made.extend(text[done..plain.start()].chars().map(in_quotes));
            made.push_str(plain.as_str());
            done = plain.end();
        }
        made.extend(text[done..].chars().map(in_quotes));
        made.extend(chunk.invalid().iter().map(|it| format!("\\x{it:02x}")));
    }
    made.push('"');
    made
}

fn in_quotes(it: char) -> Cow<'static, str> {
    let code = u32::from(it);
    match it {
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\x07' => "\\a".into(),
        '\x08' => "\\b".into(),
        '\x0b' => "\\v".into(),
        '\x0c' => "\\f".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        '\0'..='\x7f' => format!("\\x{code:02x}").into(),
        '\u{80}'..='\u{ffff}' => format!("\\u{code:04x}").into(),
        _ => format!("\\U{code:08x}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_scheme_is_made_canonical() {
        let url = reference("HTTP://User@EXAMPLE.com:080/A/../%7eb?q=%zz#F").unwrap();
        assert_eq!(url.text, "http://User@EXAMPLE.com:080/A/../%7eb?q=%zz#F");
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("http", "EXAMPLE.com:080"));
        assert_eq!(url.path, "/A/../%7eb");
    }

    #[test]
    fn a_path_is_escaped_whole_or_not_at_all() {
        assert_eq!(request("/a%2fb!'").unwrap().path, "/a%2fb!'");
        assert_eq!(request("/a%2fb! c").unwrap().path, "/a/b%21%20c");
        assert_eq!(request("/é").unwrap().path, "/%C3%A9");
        assert_eq!(request("/%ff\"").unwrap().path, "/%FF%22");
    }

    #[test]
    fn a_host_has_an_authority_of_its_own() {
        for (text, host, name, port) in [
            ("http://[fe80::1%25a%20b]:80/", "[fe80::1%a b]:80", "fe80::1%a b", "80"),
            ("http://a:/", "a:", "a", ""),
            ("x://a:1:2", "a:1:2", "a:1", "2"),
            ("http://%E9/", "\u{fffd}", "\u{fffd}", ""),
        ] {
            let url = request(text).unwrap();
            assert_eq!(
                (url.host.as_str(), hostname_and_port(&url.host)),
                (host, (name, port)),
                "{text}"
            );
        }
        for text in [
            "http://a:1:2",
            "http://a[::1]",
            "http://[1.2.3.4]",
            "http://[::1",
            "http://%41",
            "http://a b@c",
        ] {
            assert!(request(text).is_err(), "{text}");
        }
        assert_eq!(request("//a/b").unwrap().host, "");
        assert_eq!(reference("//a/b").unwrap().host, "a");
    }

    #[test]
    fn a_parameter_that_cannot_be_read_is_left_out() {
        let read = parameters("a=1&a=2&=3&&b+c=%3d=&d;e=4&f=%zz&g");
        let is = |key: &str, values: &[&str]| assert_eq!(read[key], values);
        is("a", &["1", "2"]);
        is("", &["3"]);
        is("b c", &["=="]);
        is("g", &[""]);
        assert_eq!(read.len(), 4);
        assert!(parameters(&"a&".repeat(PARAMETERS_MAX)).is_empty());
    }

    #[test]
    fn what_cannot_be_seen_is_quoted() {
        let shown = quoted("a\"\\\n\u{1}\u{7f} é\u{a0}\u{200b}\u{e0001}\u{fffd}".as_bytes());
        assert_eq!(shown, "\"a\\\"\\\\\\n\\x01\\x7f é\\u00a0\\u200b\\U000e0001\u{fffd}\"");
        assert_eq!(quoted(b"%a\xc3"), r#""%a\xc3""#);
    }
}
