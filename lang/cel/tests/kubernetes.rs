//! Expressions and what Kubernetes' own CEL answers to them.
//!
//! `tests/fixtures/answers.jsonl` holds the corpus with the answers that tests/conformance/cel recorded, one case a
//! line. `CEL_ORACLE` names the program that was built of it: it is asked again, and about what dice wrote.

mod cases;
mod expressions;

use cases::{Case, agree, ask};
use expressions::{expression, object};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

#[test]
fn what_kubernetes_answers_is_answered() {
    let recorded = Case::recorded();
    assert!(recorded.len() > 3000, "{}", recorded.len());
    agree(&recorded);
}

#[test]
fn kubernetes_answers_what_is_recorded() {
    let recorded = Case::recorded();
    let Some(answered) = ask(&recorded) else { return };
    assert_eq!(answered.len(), recorded.len());
    for (now, then) in answered.iter().zip(&recorded) {
        assert_eq!((&now.expression, &now.value), (&then.expression, &then.value));
    }
}

#[test]
fn what_dice_write_is_answered_as_kubernetes_answers_it() {
    /// So many expressions, of which Kubernetes' checker of types lets some through.
    const ASKED: usize = 60_000;
    let count = std::env::var("CEL_CASES").map_or(ASKED, |it| it.parse().expect("CEL_CASES is a number"));
    let seed = std::env::var("CEL_SEED").map_or(1, |it| it.parse::<u64>().expect("CEL_SEED is a number"));
    let seed: Vec<u8> = seed.to_le_bytes().repeat(4);
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let mut write = || {
        let tree = expression().new_tree(&mut runner).expect("the grammar has expressions");
        Case::asked(&tree.current(), &object())
    };
    let cases: Vec<Case> = (0..count).map(|_| write()).collect();
    if let Some(answered) = ask(&cases) {
        assert_eq!(answered.len(), cases.len());
        agree(&answered);
    }
}
