//! Whatever strangers write, reading and evaluating it comes back: with a value or with a sentence, in bounded time,
//! and never because a panic was caught.

mod expressions;

use std::time::{Duration, Instant};

use expressions::{expression, object};
use proptest::prelude::*;
use safe_cel::{Budget, Error, Library, from_json};
use serde_json::json;

/// Answers, and holds that it did so in the way it should.
fn ask(text: &str) {
    let library = Library::kubernetes();
    let began = Instant::now();
    let expression = match library.compile(text, &["object", "oldObject"]) {
        Ok(it) => it,
        Err(error) => {
            assert!(error.to_string().starts_with("compilation failed: "), "{text}");
            assert!(!error.to_string().contains("cannot be read"), "{text}: {error}");
            return;
        }
    };
    let mut context = library.scope();
    context.add_variable_from_value("object", from_json(&object()));
    context.add_variable_from_value("oldObject", from_json(&json!(null)));
    let answer = expression.evaluate(&context, &mut Budget::of_object());
    assert_ne!(answer, Err(Error::Engine), "{text}");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{text} took {:?}",
        began.elapsed()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_grammatical_is_answered(text in expression()) {
        ask(&text);
    }

    #[test]
    fn what_is_nearly_grammatical_is_answered(text in expression(), cuts in prop::collection::vec((any::<prop::sample::Index>(), "[-+*/%!?:.,(){}'\"`\\\\\\[\\]a-zé0-9 \n]{0,3}"), 1..4)) {
        let mut letters: Vec<char> = text.chars().collect();
        for (at, put) in cuts {
            let at = at.index(letters.len());
            letters.splice(at..=at, put.chars());
            if letters.is_empty() {
                break;
            }
        }
        ask(&letters.into_iter().collect::<String>());
    }

    #[test]
    fn what_is_no_grammar_at_all_is_answered(text in "\\PC{0,60}", tokens in prop::collection::vec(prop::sample::select(vec![
        "(", ")", "[", "]", "{", "}", "?", ":", "'", "\"", "`", "\\", "in", ".", "has(", "x", "1", "b'", "r'", "'''", "//", "\n", "&&", "|", "é",
    ]), 0..60)) {
        ask(&text);
        ask(&tokens.concat());
    }
}
