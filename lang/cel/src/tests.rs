use serde_json::{Value as Json, json};

use super::*;

fn ask_with(text: &str, object: &Json) -> Result<Value, String> {
    let library = Library::kubernetes();
    let expression = library.compile(text, &["object"]).map_err(|it| it.to_string())?;
    let mut context = library.scope();
    context.add_variable_from_value("object", from_json(object));
    expression
        .evaluate(&context, &mut Budget::of_object())
        .map_err(|it| it.to_string())
}

fn ask(text: &str) -> Result<Value, String> {
    ask_with(
        text,
        &json!({"name": "a", "n": 3, "list": [1, 2, 3], "labels": {"x": "y"}, "text": "häß"}),
    )
}

#[test]
fn what_kubernetes_offers_is_there() {
    for text in [
        "object.n == 3 && object.name in ['a', 'b']",
        "object.list.all(it, it > 0) && object.list.exists(it, it == object.n)",
        "object.list.map(it, it * 2).filter(it, it > 2).size() == 2",
        "has(object.labels.x) && !has(object.labels.z) && 'x' in object.labels",
        "object.?missing.orValue('b') == 'b' && object.?missing.deeper.orValue(1) == 1 && object[?'name'].orValue('') == 'a'",
        "object.?labels.x.orValue('') == 'y' && !has(object.name.first)",
        "object.labels.exists(k, k == 'x' && object.labels[k] == 'y')",
        "object.list.exists(it, object.list.exists(other, other == it + 1))",
        "'a%sb'.format(['-']) == 'a-b' && 'a,b'.split(',').size() == 2",
        "'abc'.matches('^a') && 'abc'.find('b.') == 'bc' && 'aba'.findAll('a') == ['a', 'a']",
        "quantity('1Gi').isGreaterThan(quantity('1Mi')) && semver('1.2.3').major() == 1",
        "math.greatest(1, 2) == 2 && sets.contains([1, 2], [1])",
        "ip('10.0.0.1').family() == 4 && url('https://a/b').getHost() == 'a'",
        "!format.dns1123Label().validate('ok').hasValue()",
        "format.dns1123Label().validate(object.text).hasValue()",
        "duration('1h') < duration('2h') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    ] {
        assert_eq!(ask(text), Ok(Value::Bool(true)), "{text}");
    }
}

#[test]
fn syntax_errors_and_unknown_names_are_refused_with_their_position() {
    for (text, said) in [
        ("", "Syntax error: mismatched input '<EOF>'"),
        (
            "object.",
            "ERROR: <input>:1:8: Syntax error: no viable alternative at input '.'",
        ),
        (
            "object.n ==\n  other",
            "ERROR: <input>:2:3: undeclared reference to 'other' (in container '')\n |   other\n | ..^",
        ),
        ("frobnicate(object)", "undeclared reference to 'frobnicate'"),
        ("maths.greatest(1, 2) == 2", "undeclared reference to 'maths'"),
        ("[1].exists(x, y == 1)", "undeclared reference to 'y'"),
        ("Thing{name: 'a'} == 1", "undeclared reference to 'Thing'"),
        ("{name: 1}", "undeclared reference to 'name'"),
        ("a.b.C{}", "undeclared reference to 'a.b.C'"),
        ("'abc", "token recognition error"),
    ] {
        let error = ask(text).unwrap_err();
        assert!(
            error.starts_with("compilation failed: ") && error.contains(said),
            "{text}: {error}"
        );
    }
    assert!(ask(&"1".repeat(LENGTH_MAX + 1)).unwrap_err().contains("longer than"));
}

#[test]
fn evaluation_errors_do_not_contain_values() {
    for (text, said) in [
        ("object.nope.x == 'skip'", "no such key: nope"),
        ("object.name.first == 'secret'", "no such overload"),
        ("object.n + 'a' == 'secret'", "no such overload"),
        ("1 / (object.n - 3) == 1", "division by zero"),
        ("object.list[7] == 1", "index out of bounds"),
        ("9223372036854775807 + object.n > 0", "integer overflow"),
        ("-(object.n - 4 - 9223372036854775807) > 0", "integer overflow"),
        ("'x'.matches('(')", "error parsing regexp"),
        ("'%.999999999f'.format([1.5]) == ''", "precision"),
        ("quantity('1e999999999').isInteger()", "no more than 1e4096"),
        ("lists.range(1000000000).size() > 0", "cost limit exceeded"),
        ("[9223372036854775807, 1].sum() > 0", "integer overflow"),
        ("[0, 1].exists(x, 1 / x > 1)", "division by zero"),
    ] {
        let error = ask(text).unwrap_err();
        assert!(error.contains(said) && !error.contains("secret"), "{text}: {error}");
    }
}

#[test]
fn depth_costs_neither_the_stack_nor_the_process() {
    // A small stack, as threads of a runtime have it.
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(|| {
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{1:", "}"),
            ("!", ""),
            ("- ", ""),
            ("size([", "])"),
            ("1+", ""),
            ("true ? ", " : 1"),
            ("false ? 1 : ", ""),
            ("[1].map(x, ", ")"),
            ("[1].exists(x, ", ")"),
        ] {
            for count in [10, 45, 90, 199, 201, 1000, 3000] {
                let text = format!("{}1{}", open.repeat(count), close.repeat(count));
                // Whatever it says, it comes back.
                let answer = ask(&text);
                assert_ne!(answer, Err(Error::Engine.to_string()), "{open} {count}");
                if count > 200 {
                    assert!(answer.unwrap_err().starts_with("compilation failed"), "{open} {count}");
                }
            }
        }
        assert_eq!(ask(&format!("1{} > 1", "+1".repeat(150))), Ok(Value::Bool(true)));
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn what_explodes_is_stopped() {
    let mut nested = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        nested = format!("[1,2,3,4,5,6,7,8,9].all({name}, {nested})");
    }
    let doubled = format!("[[1,1]]{}.size() > 0", ".map(x, [x, x])".repeat(40));
    let text = format!("['aaaaaaaaaaaaaaaa']{}.size() > 0", ".map(x, x + x)".repeat(40));
    let quadratic = "object.all(x, object.all(y, object.exists(z, z == x + y)))".to_owned();
    let appended = "object.map(x, x).map(x, x).size() > 0 && object.map(x, object.map(y, y)).size() > 0".to_owned();
    let copied = "object.all(x, object.size() > 0 && x in object)".to_owned();
    let list: Vec<i64> = (0..3000).collect();
    for bomb in [nested, doubled, text, quadratic, appended, copied] {
        let said = ask_with(&bomb, &json!(list)).unwrap_err();
        assert!(said.contains("cost limit exceeded"), "{bomb}: {said}");
    }
    let mut long = "'aaaaaaaaaa'".to_owned();
    for _ in 0..13 {
        long = format!("[{long}].map(x, x + x)[0]");
    }
    let said = ask(&format!("[{long}].map(x, x.replace('a', x)).size() > 0")).unwrap_err();
    assert!(said.contains("too long for this"), "{said}");
    // Patterns that are large, and many.
    let patterns: Vec<String> = (0..2000).map(|it| format!("(a{{50}}){{{}}}", it % 200 + 1)).collect();
    let said = ask_with("object.exists(it, 'b'.matches(it + 'x'))", &json!(patterns)).unwrap_err();
    assert!(
        said.contains("cost limit exceeded") || said.contains("regexp"),
        "{said}"
    );
    // An error does not hide behind an `or`.
    let said = ask_with("object.all(x, object.all(y, x != y || y >= 0)) || true", &json!(list)).unwrap_err();
    assert!(said.contains("cost limit exceeded"), "{said}");
}

#[test]
fn a_long_list_can_be_evaluated() {
    let items: Vec<Json> = (0..3000)
        .map(|it| json!({"name": format!("n{it}"), "size": it}))
        .collect();
    let object = json!({"items": items, "allowed": ["a", "b"]});
    for text in [
        "object.items.all(it, it.size >= 0 && it.name.startsWith('n'))",
        "object.items.map(it, it.name).size() == 3000",
        "object.items.filter(it, it.size > 10 && !(it.name in object.allowed)).size() > 0",
    ] {
        assert_eq!(ask_with(text, &object), Ok(Value::Bool(true)), "{text}");
    }
}

#[test]
fn expressions_share_a_budget_that_inner_evaluations_do_not_use() {
    let library = Library::kubernetes();
    let mut budget = Budget::new(2000, 3000);
    let expression = library.compile(
        "[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, [1,2,3,4].all(z, true)))",
        &[],
    );
    let expression = expression.unwrap();
    let scope = library.scope();
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(expression.is_true(&scope, &mut budget));
    }
    assert_eq!(answers.first(), Some(&Ok(Some(true))));
    assert_eq!(answers.last(), Some(&Err(Error::Cost)));
    assert!(budget.is_spent());
    let inside = Library::extended(|root| {
        root.add_function("inner", || {
            let library = Library::kubernetes();
            let it = library.compile("[1].all(x, x == 1)", &[]).unwrap();
            it.is_true(&library.scope(), &mut Budget::of_object()).unwrap().unwrap()
        });
    });
    let it = inside
        .compile("[1, 2].all(x, inner()) && [1].map(x, x).size() == 1", &[])
        .unwrap();
    assert_eq!(it.is_true(&inside.scope(), &mut Budget::of_object()), Ok(Some(true)));
}

#[test]
fn comparing_each_item_with_each_is_paid_for() {
    let many: Vec<_> = (0..50_000).map(|at| json!({"n": at})).collect();
    let object = json!({"many": many, "some": many[..300]});
    for text in [
        "object.MANY.distinct().size() > 0",
        "sets.contains(object.MANY, object.some)",
        "sets.equivalent(object.some, object.MANY)",
        "sets.intersects(object.MANY, [{'n': -1}])",
    ] {
        let dear = ask_with(&text.replace("MANY", "many"), &object);
        assert_eq!(dear, Err(Error::Cost.to_string()), "{text}");
        assert!(ask_with(&text.replace("MANY", "some"), &object).is_ok(), "{text}");
    }
}

#[test]
fn repeated_and_nested_evaluation_is_charged_every_time() {
    let library = Library::kubernetes();
    let ask = |text: &str| {
        let expression = library.compile(text, &[]).unwrap();
        expression.evaluate(&library.scope(), &mut Budget::new(10_000, 10_000))
    };
    // Each level asks for the one below it twice.
    let mut nested = "5".to_owned();
    for _ in 0..40 {
        nested = format!("({nested}.?a == 1)");
    }
    assert_eq!(ask(&nested), Err(Error::Cost));
    // The engine copies keys and optional values, too.
    for text in [
        "[{LONG: 1}].all(m, lists.range(100).all(i, m.size() == 1))",
        "[1].all(m, lists.range(100).all(i, optional.of(LONG).hasValue()))",
    ] {
        let text = text.replace("LONG", &format!("'{}'", "k".repeat(2000)));
        assert_eq!(ask(&text), Err(Error::Cost), "{text}");
    }
    let long = vec!["a == a"; 1000].join(" && ");
    let text = format!("[lists.range(100)].all(l, l.all(a, {long}))");
    assert_eq!(ask(&text), Err(Error::Cost));
}

#[test]
fn numbers_of_two_types_are_not_sorted() {
    let near = 1_i64 << 53;
    let mixed: Vec<Json> = (0..300)
        .map(|it| {
            if it % 3 == 0 {
                json!((near + 2) as f64)
            } else {
                json!(near + it % 5)
            }
        })
        .collect();
    let said = ask_with("object.sort().size() > 0", &json!(mixed)).unwrap_err();
    assert!(said.contains("must have the same type"), "{said}");
}
