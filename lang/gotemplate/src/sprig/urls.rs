//! URLs taken apart and put together as Go's `net/url` does.

use crate::functions::Functions;
use crate::gofmt::display;
use crate::value::{Map, Value};

pub(crate) fn add(functions: &mut Functions) {
    functions.add("urlParse", "string", |_, a| {
        let url = Url::parse(&display(&a[0])).map_err(|message| {
            let shown = crate::strconv::quote(&display(&a[0]));
            format!("unable to parse url: parse {shown}: {message}")
        })?;
        let hostname = match url.host.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((inside, _)) => inside.to_owned(),
            None => url
                .host
                .rsplit_once(':')
                .map_or(url.host.as_str(), |(name, _)| name)
                .to_owned(),
        };
        Ok(Value::map([
            ("scheme", Value::from(url.scheme)),
            ("host", Value::from(url.host)),
            ("hostname", Value::from(hostname)),
            ("path", Value::from(url.path)),
            ("query", Value::from(url.query)),
            ("opaque", Value::from(url.opaque)),
            ("fragment", Value::from(url.fragment)),
            ("userinfo", Value::from(url.userinfo)),
        ]))
    });
    functions.add("urlJoin", "dict", |_, a| {
        let Value::Map(map) = &a[0] else {
            return Ok(Value::from(""));
        };
        let url = Url {
            scheme: text(map, "scheme")?,
            host: text(map, "host")?,
            path: text(map, "path")?,
            query: text(map, "query")?,
            opaque: text(map, "opaque")?,
            fragment: text(map, "fragment")?,
            userinfo: text(map, "userinfo")?,
        };
        if !is_userinfo(&url.userinfo) {
            let shown = crate::strconv::quote(&format!("proto://{}@host", url.userinfo));
            return Err(format!(
                "unable to parse userinfo in dict: parse {shown}: net/url: invalid userinfo"
            ));
        }
        Ok(Value::from(url.show()))
    });
}

/// The scheme of a URL, or why it is none.
pub(crate) fn url_scheme(text: &str) -> Result<String, String> {
    Url::parse(text).map(|it| it.scheme)
}

fn text(map: &Map, key: &str) -> Result<String, String> {
    match map.get(key) {
        None => Ok(String::new()),
        Some(value @ (Value::Str(_) | Value::Binary(_))) => Ok(display(&value)),
        Some(other) => Err(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind()
        )),
    }
}

#[derive(Default)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
    opaque: String,
    fragment: String,
    userinfo: String,
}

fn is_userinfo(text: &str) -> bool {
    text.bytes()
        .all(|it| it.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&it))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = text
                .get(at + 1..at + 3)
                .filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
            let Some(byte) = digits.and_then(|it| u8::from_str_radix(it, 16).ok()) else {
                let end = (at + 3).min(bytes.len());
                let shown = crate::strconv::quote(&String::from_utf8_lossy(&bytes[at..end]));
                return Err(format!("invalid URL escape {shown}"));
            };
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn escape(text: &str, keep: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || keep.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

impl Url {
    fn parse(text: &str) -> Result<Url, String> {
        let mut url = Url::default();
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        if rest.bytes().any(|it| it < b' ' || it == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        url.fragment = unescape(fragment)?;
        let mut rest = rest;
        if let Some(at) = rest.find(|it: char| !it.is_ascii_alphanumeric() && !"+-.".contains(it))
            && rest[at..].starts_with(':')
        {
            if at == 0 {
                return Err("missing protocol scheme".to_owned());
            }
            if rest.starts_with(|it: char| it.is_ascii_alphabetic()) {
                url.scheme = rest[..at].to_ascii_lowercase();
                rest = &rest[at + 1..];
            }
        }
        if let Some((before, query)) = rest.split_once('?') {
            url.query = query.to_owned();
            rest = before;
        }
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|it| it.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if let Some(after) = rest
            .strip_prefix("//")
            .filter(|it| !url.scheme.is_empty() || !it.starts_with('/'))
        {
            let (authority, path) = match after.find('/') {
                Some(at) => after.split_at(at),
                None => (after, ""),
            };
            rest = path;
            let host = match authority.rsplit_once('@') {
                Some((user, _)) if !is_userinfo(user) => return Err("net/url: invalid userinfo".to_owned()),
                Some((user, host)) => {
                    let (name, password) = match user.split_once(':') {
                        Some((name, password)) => (name, Some(password)),
                        None => (user, None),
                    };
                    url.userinfo = escape(&unescape(name)?, b"$&+,;=");
                    if let Some(password) = password {
                        url.userinfo.push(':');
                        url.userinfo.push_str(&escape(&unescape(password)?, b"$&+,;="));
                    }
                    host
                }
                None => authority,
            };
            if let Some((_, port)) = host.rsplit_once(':')
                && !host.ends_with(']')
                && !port.bytes().all(|it| it.is_ascii_digit())
            {
                return Err(format!(
                    "invalid port {} after host",
                    crate::strconv::quote(&format!(":{port}"))
                ));
            }
            if host.contains(' ') {
                return Err("invalid character \" \" in host name".to_owned());
            }
            url.host = unescape(host)?;
        }
        url.path = unescape(rest)?;
        Ok(url)
    }

    fn show(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if !self.opaque.is_empty() {
            out.push_str(&self.opaque);
        } else {
            if !self.scheme.is_empty() || !self.host.is_empty() || !self.userinfo.is_empty() {
                if !self.host.is_empty() || !self.path.is_empty() || !self.userinfo.is_empty() {
                    out.push_str("//");
                }
                if !self.userinfo.is_empty() {
                    let (name, password) = match self.userinfo.split_once(':') {
                        Some((name, password)) => (name, Some(password)),
                        None => (self.userinfo.as_str(), None),
                    };
                    let shown = |it: &str| escape(&unescape(it).unwrap_or_else(|_| it.to_owned()), b"$&+,;=");
                    out.push_str(&shown(name));
                    if let Some(password) = password {
                        out.push(':');
                        out.push_str(&shown(password));
                    }
                    out.push('@');
                }
                out.push_str(&escape(&self.host, b"!$&'()*+,;=:[]<>\""));
            }
            let path = escape(&self.path, b"$&+,/:;=@!'()*");
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            if out.is_empty() && path.split('/').next().is_some_and(|it| it.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&escape(&self.fragment, b"$&+,/:;=?@!()*"));
        }
        out
    }
}
