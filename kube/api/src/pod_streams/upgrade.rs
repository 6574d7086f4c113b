//! Which protocol a client offers for what follows HTTP, and the answer that agrees to one.

use super::{process::EndReport, web_socket::Coding};
use crate::respond::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use kube_store::status::Status;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The header by which both sides agree on what is spoken in SPDY.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// What a client may speak that speaks nothing of its offer.
const ACCEPTED_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// What `exec` and `attach` speak in SPDY.
const SPDY_PROCESS: [(&str, SpdyProcess); 4] = [
    (
        "v4.channel.k8s.io",
        SpdyProcess {
            report: EndReport::Status,
            resizes: true,
        },
    ),
    (
        "v3.channel.k8s.io",
        SpdyProcess {
            report: EndReport::Text,
            resizes: true,
        },
    ),
    (
        "v2.channel.k8s.io",
        SpdyProcess {
            report: EndReport::Text,
            resizes: false,
        },
    ),
    (
        "channel.k8s.io",
        SpdyProcess {
            report: EndReport::Text,
            resizes: false,
        },
    ),
];
/// What `port-forward` speaks in SPDY.
const SPDY_PORTS: &str = "portforward.k8s.io";
/// The same in a WebSocket: SPDY in its messages.
const TUNNELLED_PORTS: &str = "SPDY/3.1+portforward.k8s.io";

/// What is spoken with a process over SPDY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpdyProcess {
    pub report: EndReport,
    pub resizes: bool,
}

/// How a process is spoken with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessProtocol {
    Spdy(SpdyProcess),
    WebSocket(Coding, EndReport),
}

/// How ports are spoken with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    Spdy,
    /// SPDY in the messages of a WebSocket.
    Tunnelled,
    /// Two channels for each port of the query.
    WebSocket(Coding),
}

/// What a client offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeOffer {
    WebSocket { protocols: Vec<String>, accept: String },
    Spdy { protocols: Vec<String> },
}

fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|it| it.to_str().ok());
    values
        .flat_map(|it| it.split(','))
        .map(str::trim)
        .filter(|it| !it.is_empty())
}

impl UpgradeOffer {
    /// Reads the offer of a request.
    ///
    /// # Errors
    /// 400 when there is none, or one that is not known.
    pub fn of(headers: &HeaderMap) -> Result<Self, Status> {
        let upgrades = words(headers, &header::CONNECTION).any(|it| it.eq_ignore_ascii_case("upgrade"));
        let to = words(headers, &header::UPGRADE).next().filter(|_| upgrades);
        let Some(to) = to else {
            return Err(Status::bad_request("Upgrade request required"));
        };
        if to.eq_ignore_ascii_case("SPDY/3.1") {
            let protocols = words(headers, &STREAM_PROTOCOL).map(str::to_owned).collect();
            return Ok(Self::Spdy { protocols });
        }
        if !to.eq_ignore_ascii_case("websocket") {
            let text = format!("unable to upgrade: this server speaks websocket and SPDY/3.1, not {to:?}");
            return Err(Status::bad_request(text));
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY);
        let version = headers.get(header::SEC_WEBSOCKET_VERSION);
        match (key, version) {
            (Some(key), Some(version)) if version == "13" => Ok(Self::WebSocket {
                protocols: words(headers, &header::SEC_WEBSOCKET_PROTOCOL)
                    .map(str::to_owned)
                    .collect(),
                accept: derive_accept_key(key.as_bytes()),
            }),
            _ => Err(Status::bad_request(
                "unable to upgrade: a WebSocket needs Sec-WebSocket-Key, and Sec-WebSocket-Version 13",
            )),
        }
    }

    /// Agrees on how a process is spoken with.
    ///
    /// # Errors
    /// When nothing of the offer is known.
    pub fn process(&self) -> Result<(ProcessProtocol, Response<Body>), Box<Response<Body>>> {
        let known: Vec<(&str, ProcessProtocol)> = match self {
            Self::Spdy { .. } => SPDY_PROCESS.map(|(name, it)| (name, ProcessProtocol::Spdy(it))).into(),
            Self::WebSocket { .. } => web_sockets()
                .map(|(name, coding, report)| (name, ProcessProtocol::WebSocket(coding, report)))
                .into(),
        };
        // Whoever names none speaks what was first there.
        let first = known[known.len() - 1].1;
        self.agree(&known, first)
    }

    /// Agrees on how ports are spoken with.
    ///
    /// # Errors
    /// When nothing of the offer is known.
    pub fn ports(&self) -> Result<(PortProtocol, Response<Body>), Box<Response<Body>>> {
        let plain = Coding {
            is_base64: false,
            closes: false,
        };
        let coded = Coding {
            is_base64: true,
            closes: false,
        };
        match self {
            Self::Spdy { .. } => self.agree(&[(SPDY_PORTS, PortProtocol::Spdy)], PortProtocol::Spdy),
            Self::WebSocket { .. } => self.agree(
                &[
                    (TUNNELLED_PORTS, PortProtocol::Tunnelled),
                    ("v4.channel.k8s.io", PortProtocol::WebSocket(plain)),
                    ("v4.base64.channel.k8s.io", PortProtocol::WebSocket(coded)),
                ],
                PortProtocol::WebSocket(plain),
            ),
        }
    }

    /// The first of the client's protocols that is known here, and the answer.
    fn agree<T: Copy>(&self, known: &[(&str, T)], unnamed: T) -> Result<(T, Response<Body>), Box<Response<Body>>> {
        let (Self::Spdy { protocols } | Self::WebSocket { protocols, .. }) = self;
        let found = protocols
            .iter()
            .find_map(|it| known.iter().find(|(name, _)| name == it).copied());
        if found.is_none() && !protocols.is_empty() {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(Box::new(self.refusal(&names)));
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        let (to, named) = match self {
            Self::Spdy { .. } => ("SPDY/3.1", STREAM_PROTOCOL),
            Self::WebSocket { accept, .. } => {
                if let Ok(accept) = HeaderValue::from_str(accept) {
                    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
                }
                ("websocket", header::SEC_WEBSOCKET_PROTOCOL)
            }
        };
        headers.insert(header::UPGRADE, HeaderValue::from_static(to));
        if let Some(value) = found.and_then(|(name, _)| HeaderValue::from_str(name).ok()) {
            headers.insert(named, value);
        }
        Ok((found.map_or(unnamed, |it| it.1), response))
    }

    /// apimachinery pkg/util/httpstream, `Handshake`: 403 with what would have been accepted; of WebSockets 400.
    fn refusal(&self, known: &[&str]) -> Response<Body> {
        let form = crate::respond::Form::default();
        let all = known.join(" ");
        match self {
            Self::Spdy { protocols } => {
                let text = format!(
                    "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{all}]",
                    protocols.join(" ")
                );
                let status = Status::new(403, "Forbidden", text);
                let mut response = crate::respond::failure(&status, &form);
                for it in known.iter().filter_map(|it| HeaderValue::from_str(it).ok()) {
                    response.headers_mut().append(ACCEPTED_PROTOCOLS, it);
                }
                response
            }
            Self::WebSocket { protocols, .. } => {
                let text = format!(
                    "requested protocol(s) are not supported: [{}]; supports [{all}]",
                    protocols.join(" ")
                );
                crate::respond::failure(&Status::bad_request(text), &form)
            }
        }
    }
}

/// What `exec` and `attach` speak in a WebSocket; the last is what a client speaks that names none.
fn web_sockets() -> [(&'static str, Coding, EndReport); 5] {
    let plain = |closes| Coding {
        is_base64: false,
        closes,
    };
    let coded = Coding {
        is_base64: true,
        closes: false,
    };
    [
        ("v5.channel.k8s.io", plain(true), EndReport::Status),
        ("v4.channel.k8s.io", plain(false), EndReport::Status),
        ("v4.base64.channel.k8s.io", coded, EndReport::Status),
        ("base64.channel.k8s.io", coded, EndReport::Text),
        ("channel.k8s.io", plain(false), EndReport::Text),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_first_protocol_of_the_client_that_is_known_wins() {
        let offer = UpgradeOffer::of(&headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
            ("x-stream-protocol-version", "v4.channel.k8s.io, v3.channel.k8s.io"),
        ]))
        .unwrap();
        let (protocol, response) = offer.process().unwrap_or_else(|_| panic!("refused"));
        assert_eq!(protocol, ProcessProtocol::Spdy(SPDY_PROCESS[0].1));
        assert_eq!(response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
        let refused = offer.ports().map(|it| it.0).unwrap_err();
        assert_eq!(refused.status(), 403);
        assert_eq!(
            refused.headers()["x-accepted-stream-protocol-versions"],
            "portforward.k8s.io"
        );
    }

    #[test]
    fn a_web_socket_is_accepted_by_its_key_and_version() {
        let mut all = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            (
                "sec-websocket-protocol",
                "v5.channel.k8s.io, SPDY/3.1+portforward.k8s.io",
            ),
        ]);
        let offer = UpgradeOffer::of(&all).unwrap();
        let (protocol, response) = offer.process().unwrap_or_else(|_| panic!("refused"));
        assert!(matches!(
            protocol,
            ProcessProtocol::WebSocket(Coding { closes: true, .. }, EndReport::Status)
        ));
        assert_eq!(
            response.headers()["sec-websocket-accept"],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        let (protocol, response) = offer.ports().unwrap_or_else(|_| panic!("refused"));
        assert_eq!(protocol, PortProtocol::Tunnelled);
        assert_eq!(response.headers()["sec-websocket-protocol"], TUNNELLED_PORTS);
        all.remove("sec-websocket-version");
        assert_eq!(UpgradeOffer::of(&all).unwrap_err().code, 400);
        all.remove("connection");
        assert_eq!(UpgradeOffer::of(&all).unwrap_err().message, "Upgrade request required");
    }
}
