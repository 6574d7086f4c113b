//! Protobuf as Go clients send it, written field by field: the numbers are those of Kubernetes' API.

use bytes::Bytes;

/// A message under construction.
#[derive(Clone, Default)]
pub struct Message(Vec<u8>);

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub fn message() -> Message {
    Message::default()
}

impl Message {
    pub fn bytes(mut self, number: u32, bytes: &[u8]) -> Self {
        varint(&mut self.0, u64::from(number) << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
    pub fn text(self, number: u32, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }
    pub fn texts(self, number: u32, texts: &[&str]) -> Self {
        texts.iter().fold(self, |it, text| it.text(number, text))
    }
    pub fn message(self, number: u32, message: Message) -> Self {
        self.bytes(number, &message.0)
    }
    pub fn integer(mut self, number: u32, value: u64) -> Self {
        varint(&mut self.0, u64::from(number) << 3);
        varint(&mut self.0, value);
        self
    }
    /// An entry of a map of texts.
    pub fn entry(self, number: u32, key: &str, value: &str) -> Self {
        self.message(number, message().text(1, key).text(2, value))
    }
    /// With the magic number and the envelope that say what it is.
    pub fn envelope(self, api_version: &str, kind: &str) -> Bytes {
        let meta = message().text(1, api_version).text(2, kind);
        let unknown = message().message(1, meta).bytes(2, &self.0).text(3, "").text(4, "");
        [&b"k8s\0"[..], &unknown.0].concat().into()
    }
}

/// `metadata` as Go writes it: all its plain fields, empty ones included.
pub fn metadata(name: &str) -> Message {
    message()
        .text(1, name)
        .text(2, "")
        .text(3, "")
        .text(4, "")
        .text(5, "")
        .text(6, "")
        .integer(7, 0)
        .message(8, message())
}
