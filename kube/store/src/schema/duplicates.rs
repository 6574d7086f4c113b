//! Keys that a JSON text gives twice. The parsed value no longer shows them: whether there are any is seen while it is
//! made, and which they are is read from the bytes.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::HashSet, fmt};

use super::{tell, validate::Path};

/// Parses a JSON text, and says whether it gives a key twice. The value is that of `serde_json::from_slice`:
/// the last of the two counts.
///
/// # Errors
/// Those of `serde_json::from_slice`.
pub fn parse(json: &[u8]) -> serde_json::Result<(Value, bool)> {
    let mut twice = false;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = Parsed { twice: &mut twice }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, twice))
}

struct Parsed<'a> {
    twice: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Parsed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parsed<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }
    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_string<E>(self, it: String) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Parsed { twice: self.twice })? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Parsed { twice: self.twice })?;
            *self.twice |= all.insert(key, value).is_some();
        }
        Ok(Value::Object(all))
    }
}

/// Paths (`data.a`, `spec.list[0].x`) of keys that occur more than once in their object, as many as are told.
/// Empty for text that is no JSON.
pub fn duplicates(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    // A syntax error is reported by whoever parses the value itself.
    let _ = Node {
        path: &Path::ROOT,
        found: &mut found,
    }
    .deserialize(&mut reader);
    found
}

/// A key; it is copied only when it is written with escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct Node<'a> {
    path: &'a Path<'a>,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        Deserialize::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut at = 0;
        while items
            .next_element_seed(Node {
                path: &self.path.index(at),
                found: self.found,
            })?
            .is_some()
        {
            at += 1;
        }
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key()? {
            let Key::<'de>(key) = key;
            let path = self.path.field(&key);
            if seen.contains(&key) {
                tell(self.found, || path.dotted());
            }
            entries.next_value_seed(Node {
                path: &path,
                found: self.found,
            })?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{duplicates, parse};
    use serde_json::Value;

    #[test]
    fn parsing_matches_another_parser_and_finds_duplicate_keys() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let table = [
            (
                r#" {"a":[1,-2,1.5,1e300,18446744073709551615,18446744073709551616,true,null,"\u00e9\n"],"b":{"a":{}}} "#,
                false,
            ),
            (r#"{"a":1,"b":{"a":1,"c":[{"d":1,"d":{"e":2}}]}}"#, true),
            (r#"{"a":1,"\u0061":2}"#, true),
            ("17", false),
            ("null", false),
            ("", false),
            (r#"{"a":1} x"#, false),
            (r#"{"a":1,"a""#, false),
            ("[1e400]", false),
            ("[\"\u{1}\"]", false),
            (&deep, false),
        ];
        for (text, twice) in table {
            let known = serde_json::from_slice::<Value>(text.as_bytes());
            match (parse(text.as_bytes()), known) {
                (Ok(found), Ok(known)) => assert_eq!(found, (known, twice), "{text}"),
                (Err(found), Err(known)) => assert_eq!(found.to_string(), known.to_string(), "{text}"),
                (found, known) => panic!("{text}: {found:?}, not {known:?}"),
            }
        }
    }

    #[test]
    fn keys_given_twice_are_found_with_their_path() {
        let table: [(&str, &[&str]); 5] = [
            (r#"{"a":1,"b":{"a":1}}"#, &[]),
            (r#"{"data":{"a":"1","a":"2","a":"3"}}"#, &["data.a"]),
            (r#"{"spec":{"l":[{"x":1},{"x":1,"x":null}]}}"#, &["spec.l[1].x"]),
            (r#"{"a":1,"a":2,"#, &["a"]),
            ("not json", &[]),
        ];
        for (text, want) in table {
            assert_eq!(duplicates(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn duplicate_key_messages_stay_short_for_long_texts() {
        let long = "k".repeat(1 << 20);
        let items = vec![r#"{"a":1,"a":2}"#; 100_000].join(",");
        let found = duplicates(format!(r#"{{"{long}":[{items}],"b":1,"b":2}}"#).as_bytes());
        assert_eq!(found.len(), 2, "all that is under the long key reads the same");
        assert!(found.iter().all(|it| it.len() <= 4096));
        let many: String = (0..200).map(|at| format!(r#""k{at}":1,"k{at}":2,"#)).collect();
        assert_eq!(duplicates(format!(r#"{{{many}"end":1}}"#).as_bytes()).len(), 100);
    }
}
