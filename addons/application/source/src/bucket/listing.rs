//! What a server of S3 writes: pages of a listing, and refusals.

use roxmltree::{Document, Node};

/// A page of a listing.
#[derive(Debug, PartialEq)]
pub(super) struct ListingPage {
    pub objects: Vec<ListedObject>,
    /// What asks for the next page.
    pub next: Option<String>,
}

/// An object of a bucket, as a listing tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// What the server calls this state of it: its ETag, without quotation marks.
    pub tag: Option<String>,
}

impl ListingPage {
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "its listing is no UTF-8".to_owned())?;
        let document = Document::parse(text).map_err(|it| format!("its listing is no XML: {it}"))?;
        let root = document.root_element();
        if root.tag_name().name() != "ListBucketResult" {
            return Err("it answers with what is no listing of a bucket".to_owned());
        }
        let is_encoded = text_of(root, "EncodingType").is_some_and(|it| it.eq_ignore_ascii_case("url"));
        let objects = root
            .children()
            .filter(|it| it.tag_name().name() == "Contents")
            .map(|it| {
                let key = text_of(it, "Key").ok_or("its listing has an object without a key")?;
                let key = if is_encoded { decoded(key)? } else { key.to_owned() };
                // What does not tell its size is looked at.
                let size = text_of(it, "Size").and_then(|it| it.trim().parse().ok()).unwrap_or(1);
                let tag = text_of(it, "ETag").and_then(bare_tag);
                Ok(ListedObject { key, size, tag })
            });
        let objects = objects.collect::<Result<_, String>>()?;
        let is_truncated = text_of(root, "IsTruncated").is_some_and(|it| it.trim() == "true");
        let next = text_of(root, "NextContinuationToken").map(ToOwned::to_owned);
        if is_truncated && next.is_none() {
            return Err("its listing is cut off".to_owned());
        }
        Ok(Self {
            objects,
            next: next.filter(|_| is_truncated),
        })
    }
}

/// An ETag without its quotation marks.
pub(super) fn bare_tag(text: &str) -> Option<String> {
    let text = text.trim();
    let bare = text.strip_prefix("W/").unwrap_or(text).trim_matches('"');
    (!bare.is_empty()).then(|| bare.to_owned())
}

/// Why a server refuses, in a word of S3 as `NoSuchBucket`.
pub(super) fn error_code(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let document = Document::parse(text).ok()?;
    let code = text_of(document.root_element(), "Code")?;
    let is_word = !code.is_empty() && code.len() <= 100 && code.bytes().all(|it| it.is_ascii_alphanumeric());
    is_word.then(|| code.to_owned())
}

fn text_of<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let child = node.children().find(|it| it.tag_name().name() == name)?;
    child.text()
}

/// Keys in a listing are encoded as a form is.
fn decoded(key: &str) -> Result<String, String> {
    let key = key.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&key).decode_utf8();
    decoded
        .map(Into::into)
        .map_err(|_| format!("the key {key} is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>b</Name><Prefix></Prefix><IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>
  <NextContinuationToken>a+b/c=</NextContinuationToken>
  <Contents><Key>a+b%2Fc%26.yaml</Key><ETag>&quot;12ab&quot;</ETag><Size>12</Size></Contents>
  <Contents><Key>folder/</Key><Size>0</Size></Contents>
</ListBucketResult>"#;

    #[test]
    fn a_page_tells_its_objects_and_the_next_page() {
        let listing = ListingPage::read(PAGE.as_bytes()).unwrap();
        let listed = |key: &str, size, tag: Option<&str>| ListedObject {
            key: key.to_owned(),
            size,
            tag: tag.map(ToOwned::to_owned),
        };
        assert_eq!(
            listing.objects,
            [listed("a b/c&.yaml", 12, Some("12ab")), listed("folder/", 0, None)]
        );
        assert_eq!(listing.next.as_deref(), Some("a+b/c="));
        let plain = PAGE.replace("<EncodingType>url</EncodingType>", "");
        assert_eq!(
            ListingPage::read(plain.as_bytes()).unwrap().objects[0].key,
            "a+b%2Fc%26.yaml"
        );
    }

    #[test]
    fn what_is_no_listing_is_told_apart() {
        for text in [
            "",
            "<html><body>login</body></html>",
            "<ListBucketResult><Contents/></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult>&a;</ListBucketResult>",
        ] {
            assert!(ListingPage::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn tags_are_compared_without_their_marks() {
        for text in ["\"a\"", " a ", "W/\"a\""] {
            assert_eq!(bare_tag(text).as_deref(), Some("a"), "{text}");
        }
        assert_eq!(bare_tag("\"\""), None);
    }

    #[test]
    fn a_refusal_is_one_word() {
        let refusal = b"<Error><Code>NoSuchBucket</Code><Message>secret</Message></Error>";
        assert_eq!(error_code(refusal).as_deref(), Some("NoSuchBucket"));
        assert_eq!(error_code(b"<Error><Code>a b\n</Code></Error>"), None);
        assert_eq!(error_code(b"no"), None);
    }

    proptest! {
        #[test]
        fn no_change_of_a_page_makes_its_reader_panic(at in 0..PAGE.len(), with in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = PAGE.as_bytes().to_vec();
            bytes[at] = with;
            if cut {
                bytes.truncate(at);
            }
            let _ = ListingPage::read(&bytes);
            let _ = error_code(&bytes);
        }
    }
}
