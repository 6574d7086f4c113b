//! `key=value` flags, as labels and annotations are written.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// The pairs that `flag` was given. A key that is given twice with two values is a mistake, and said so.
pub fn parse(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for text in given {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            bail!("{flag} {text:?}: write KEY=VALUE");
        };
        if let Some(before) = pairs.insert(key.to_owned(), value.to_owned())
            && before != value
        {
            bail!("{flag} gives {key:?} two values, {before:?} and {value:?}");
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_key_and_a_value() {
        let parsed = parse("--labels", &["a=b".into(), "c=".into(), "d=e=f".into()]).unwrap();
        let pairs: Vec<(&str, &str)> = parsed
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "b"), ("c", ""), ("d", "e=f")]);
    }

    #[test]
    fn what_is_no_pair_is_named_with_its_flag() {
        for (bad, says) in [
            (vec!["a"], "--labels \"a\": write KEY=VALUE"),
            (vec!["=b"], "--labels \"=b\": write KEY=VALUE"),
            (vec!["a=b", "a=c"], "--labels gives \"a\" two values, \"b\" and \"c\""),
        ] {
            let bad: Vec<String> = bad.into_iter().map(str::to_owned).collect();
            assert_eq!(parse("--labels", &bad).unwrap_err().to_string(), says);
        }
    }
}
