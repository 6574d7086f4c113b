//! Header blocks of SPDY/3: names and values with their lengths, compressed with one zlib stream per direction whose
//! dictionary both sides know (draft-mbelshe-httpbis-spdy-00, section 2.6.10).

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::{io, sync::LazyLock};

/// The most that the headers of one stream may be, decompressed. Those of `kubectl` are some hundred bytes.
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// The most headers of one stream.
const HEADERS_MAX: usize = 64;

/// The words of the dictionary, each of which is preceded by its length in four bytes.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host \
    if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";

/// What follows them.
const REST: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
    403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS.split(' ') {
        let word = word.replace('_', " ");
        bytes.extend_from_slice(&u32::try_from(word.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(REST.as_bytes());
    bytes
});

/// Headers in their order, with names in lower case.
pub type Headers = Vec<(String, String)>;

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads the blocks of one direction, in their order.
pub struct HeaderReader(Decompress);

impl HeaderReader {
    pub fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// Reads the next block.
    ///
    /// # Errors
    /// When it is no block, or a large one.
    pub fn read(&mut self, block: &[u8]) -> io::Result<Headers> {
        let plain = self.decompress(block)?;
        parse(&plain).ok_or_else(|| bad("a header block is cut short or has too many headers"))
    }

    fn decompress(&mut self, mut block: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::with_capacity(1024);
        loop {
            let (read, written) = (self.0.total_in(), self.0.total_out());
            let result = self.0.decompress_vec(block, &mut plain, FlushDecompress::Sync);
            let read = usize::try_from(self.0.total_in() - read).unwrap_or_default();
            block = block.get(read..).unwrap_or_default();
            match result {
                Err(error) if error.needs_dictionary().is_some() => {
                    let set = self.0.set_dictionary(&DICTIONARY);
                    set.map_err(|_| bad("a header block has another dictionary"))?;
                    continue;
                }
                Err(_) => return Err(bad("a header block is not compressed as SPDY/3 has it")),
                Ok(Status::StreamEnd) => return Err(bad("the compression of headers ended")),
                Ok(_) => {}
            }
            let stuck = read == 0 && self.0.total_out() == written;
            if block.is_empty() && plain.len() < plain.capacity() || stuck && plain.len() < plain.capacity() {
                return Ok(plain);
            }
            if plain.len() >= BLOCK_BYTES_MAX {
                return Err(bad("a header block is too large"));
            }
            plain.reserve(4096);
        }
    }
}

fn parse(mut plain: &[u8]) -> Option<Headers> {
    fn number(plain: &mut &[u8]) -> Option<usize> {
        let (number, rest) = plain.split_first_chunk::<4>()?;
        *plain = rest;
        usize::try_from(u32::from_be_bytes(*number)).ok()
    }
    fn text(plain: &mut &[u8]) -> Option<String> {
        let length = number(plain)?;
        let (text, rest) = plain.split_at_checked(length)?;
        *plain = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
    let count = number(&mut plain).filter(|it| *it <= HEADERS_MAX)?;
    (0..count)
        .map(|_| Some((text(&mut plain)?.to_ascii_lowercase(), text(&mut plain)?)))
        .collect()
}

/// Writes the blocks of one direction, in their order.
pub struct HeaderWriter(Option<Compress>);

impl HeaderWriter {
    pub fn new() -> Self {
        Self(None)
    }

    /// The next block.
    ///
    /// # Errors
    /// When the compression fails.
    pub fn write(&mut self, headers: &[(&str, &str)]) -> io::Result<Vec<u8>> {
        let failed = |_| io::Error::other("headers could not be compressed");
        let compress = match &mut self.0 {
            Some(it) => it,
            none => {
                let mut it = Compress::new(Compression::default(), true);
                it.set_dictionary(&DICTIONARY).map_err(failed)?;
                none.insert(it)
            }
        };
        let mut plain = Vec::new();
        let length = |it: usize| u32::try_from(it).unwrap_or_default().to_be_bytes();
        plain.extend(length(headers.len()));
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend(length(text.len()));
            plain.extend(text.as_bytes());
        }
        let mut block = Vec::with_capacity(plain.len() + 64);
        let mut rest = &plain[..];
        loop {
            let before = compress.total_in();
            compress
                .compress_vec(rest, &mut block, FlushCompress::Sync)
                .map_err(failed)?;
            let read = usize::try_from(compress.total_in() - before).unwrap_or_default();
            rest = rest.get(read..).unwrap_or_default();
            if rest.is_empty() && block.len() < block.capacity() {
                return Ok(block);
            }
            block.reserve(256);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_that_of_spdy_3() {
        assert_eq!(DICTIONARY.len(), 1423);
        let mut compress = Compress::new(Compression::default(), true);
        assert_eq!(compress.set_dictionary(&DICTIONARY).unwrap(), 0xe3c6_a7c2);
    }

    #[test]
    fn header_blocks_share_their_compression_in_order() {
        let (mut writer, mut reader) = (HeaderWriter::new(), HeaderReader::new());
        let long = "x".repeat(9000);
        let blocks: [&[(&str, &str)]; 3] = [
            &[("Streamtype", "error"), ("port", "80")],
            &[("streamtype", "data"), ("port", "80"), ("requestid", &long)],
            &[],
        ];
        for headers in blocks {
            let block = writer.write(headers).unwrap();
            let read = reader.read(&block).unwrap();
            let wanted: Headers = headers
                .iter()
                .map(|(name, value)| (name.to_lowercase(), (*value).to_owned()))
                .collect();
            assert_eq!(read, wanted);
        }
    }

    #[test]
    fn a_header_block_that_grows_too_large_is_refused() {
        let (mut writer, mut reader) = (HeaderWriter::new(), HeaderReader::new());
        let block = writer.write(&[("a", &"x".repeat(1 << 20))]).unwrap();
        assert!(block.len() < 4096);
        assert!(reader.read(&block).unwrap_err().to_string().contains("too large"));
        for garbage in [&b"garbage"[..], &[0x78, 0xbb, 0, 0, 0, 1, 0, 0]] {
            HeaderReader::new().read(garbage).unwrap_err();
        }
        assert_eq!(parse(&[0, 0, 0, 1, 0, 0, 0, 9, b'a']), None);
        assert_eq!(parse(&[255, 255, 255, 255]), None);
    }
}
