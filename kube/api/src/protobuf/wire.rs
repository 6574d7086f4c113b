//! Protobuf's wire format: numbered fields of four shapes.

use super::Error;
use prost::encoding::{WireType, decode_key, decode_varint};

/// The content of one field.
#[derive(Clone, Copy, Debug)]
pub enum Wire<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads the fields of one message.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field, `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = decode_key(&mut self.rest).map_err(|_| Error::Malformed)?;
        let value = match wire {
            WireType::Varint => Wire::Number(self.number()?),
            WireType::SixtyFourBit => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            WireType::ThirtyTwoBit => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.number()?).map_err(|_| Error::Malformed)?;
                Wire::Bytes(self.take(length)?)
            }
            WireType::StartGroup | WireType::EndGroup => return Err(Error::Malformed),
        };
        Ok(Some((number, value)))
    }

    /// The next number of a packed list, `None` at the end.
    pub fn varint(&mut self) -> Result<Option<u64>, Error> {
        if self.rest.is_empty() {
            Ok(None)
        } else {
            self.number().map(Some)
        }
    }

    fn number(&mut self) -> Result<u64, Error> {
        decode_varint(&mut self.rest).map_err(|_| Error::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| Error::Truncated)
    }
}
