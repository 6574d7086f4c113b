//! The messages of the tunnel. proto3, without a package.
//! Upstream: apiserver-network-proxy `konnectivity-client/proto/client/client.proto`.

use bytes::Bytes;
use prost::{Message, Oneof};

/// What a [`Packet`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum PacketType {
    /// A client asks for a connection.
    DialReq = 0,
    /// Whether it got one.
    DialRsp = 1,
    /// One end closes a connection.
    CloseReq = 2,
    /// It is closed.
    CloseRsp = 3,
    /// Bytes of a connection.
    Data = 4,
    /// A client does not want its connection any more.
    DialCls = 5,
    /// An agent takes no more connections.
    Drain = 6,
    /// Ours: the receiver has room again. Only peers that have both offered a window send it.
    Credit = 100,
}

/// One message.
#[derive(Clone, PartialEq, Message)]
pub struct Packet {
    /// What it is, a [`PacketType`].
    #[prost(enumeration = "PacketType", tag = "1")]
    pub kind: i32,
    /// What it says.
    #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7, 8, 100")]
    pub payload: Option<Payload>,
}

/// What a [`Packet`] says.
#[derive(Clone, PartialEq, Oneof)]
pub enum Payload {
    /// Of [`PacketType::DialReq`].
    #[prost(message, tag = "2")]
    DialRequest(DialRequest),
    /// Of [`PacketType::DialRsp`].
    #[prost(message, tag = "3")]
    DialResponse(DialResponse),
    /// Of [`PacketType::Data`].
    #[prost(message, tag = "4")]
    Data(ConnectionData),
    /// Of [`PacketType::CloseReq`].
    #[prost(message, tag = "5")]
    CloseRequest(CloseRequest),
    /// Of [`PacketType::CloseRsp`].
    #[prost(message, tag = "6")]
    CloseResponse(CloseResponse),
    /// Of [`PacketType::DialCls`].
    #[prost(message, tag = "7")]
    CloseDial(CloseDial),
    /// Of [`PacketType::Drain`].
    #[prost(message, tag = "8")]
    Drain(Drain),
    /// Of [`PacketType::Credit`].
    #[prost(message, tag = "100")]
    Credit(Credit),
}

/// A connection is wanted.
#[derive(Clone, PartialEq, Message)]
pub struct DialRequest {
    /// `tcp`.
    #[prost(string, tag = "1")]
    pub protocol: String,
    /// `host:port`.
    #[prost(string, tag = "2")]
    pub address: String,
    /// Names the request.
    #[prost(int64, tag = "3")]
    pub random: i64,
}

/// Whether there is a connection.
#[derive(Clone, PartialEq, Message)]
pub struct DialResponse {
    /// Why not; empty when there is one.
    #[prost(string, tag = "1")]
    pub error: String,
    /// Names the connection among those of its agent.
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
    /// The request's.
    #[prost(int64, tag = "3")]
    pub random: i64,
}

/// Bytes.
#[derive(Clone, PartialEq, Message)]
pub struct ConnectionData {
    /// The connection.
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
    /// What is wrong with it.
    #[prost(string, tag = "2")]
    pub error: String,
    /// The bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
}

/// A connection is to be closed.
#[derive(Clone, PartialEq, Message)]
pub struct CloseRequest {
    /// The connection.
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
}

/// A connection is closed.
#[derive(Clone, PartialEq, Message)]
pub struct CloseResponse {
    /// Why, where something went wrong.
    #[prost(string, tag = "1")]
    pub error: String,
    /// The connection.
    #[prost(int64, tag = "2")]
    pub connect_id: i64,
}

/// A request is taken back.
#[derive(Clone, PartialEq, Message)]
pub struct CloseDial {
    /// The request's.
    #[prost(int64, tag = "1")]
    pub random: i64,
}

/// No more connections.
#[derive(Clone, PartialEq, Message)]
pub struct Drain {}

/// The receiver has handed on so many bytes of a connection.
#[derive(Clone, PartialEq, Message)]
pub struct Credit {
    /// The connection.
    #[prost(int64, tag = "1")]
    pub connect_id: i64,
    /// How many bytes.
    #[prost(int64, tag = "2")]
    pub bytes: i64,
}

impl From<Payload> for Packet {
    fn from(payload: Payload) -> Self {
        let kind = match &payload {
            Payload::DialRequest(_) => PacketType::DialReq,
            Payload::DialResponse(_) => PacketType::DialRsp,
            Payload::Data(_) => PacketType::Data,
            Payload::CloseRequest(_) => PacketType::CloseReq,
            Payload::CloseResponse(_) => PacketType::CloseRsp,
            Payload::CloseDial(_) => PacketType::DialCls,
            Payload::Drain(_) => PacketType::Drain,
            Payload::Credit(_) => PacketType::Credit,
        };
        Self {
            kind: kind.into(),
            payload: Some(payload),
        }
    }
}

/// Bytes of a connection as a packet.
pub fn data(connect_id: i64, data: Bytes) -> Packet {
    let error = String::new();
    Payload::Data(ConnectionData {
        connect_id,
        error,
        data,
    })
    .into()
}

/// A request to close a connection.
pub fn close(connect_id: i64) -> Packet {
    Payload::CloseRequest(CloseRequest { connect_id }).into()
}

/// A connection is closed, and why.
pub fn closed(connect_id: i64, error: impl Into<String>) -> Packet {
    let error = error.into();
    Payload::CloseResponse(CloseResponse { error, connect_id }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_upstreams_on_the_wire() {
        let request = DialRequest {
            protocol: "tcp".into(),
            address: "a:1".into(),
            random: 5,
        };
        let bytes = Packet::from(Payload::DialRequest(request)).encode_to_vec();
        // The type 0 is left out, as proto3 does.
        assert_eq!(bytes, b"\x12\x0c\x0a\x03tcp\x12\x03a:1\x18\x05");
        let bytes = data(7, Bytes::from_static(b"xy")).encode_to_vec();
        assert_eq!(bytes, b"\x08\x04\x22\x06\x08\x07\x1a\x02xy");
        let bytes = closed(7, "e").encode_to_vec();
        assert_eq!(bytes, b"\x08\x03\x32\x05\x0a\x01e\x10\x07");
    }
}
