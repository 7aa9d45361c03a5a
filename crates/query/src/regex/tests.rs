use super::*;
use crate::checkpoint::tests::Ends;
use crate::checkpoint::watch;

fn regex(pattern: &str) -> Regex {
    Regex::compile(pattern, "").unwrap_or_else(|refusal| panic!("/{pattern}/: {refusal}"))
}

fn found<'t>(regex: &Regex, text: &'t str) -> Option<Vec<Option<&'t str>>> {
    let groups = regex.groups_from(text, 0).expect("the search ends");
    groups.map(|groups| groups.into_iter().map(|group| group.map(|group| &text[group])).collect())
}

/// What the first match and its groups are; `None` for no match.
fn check(pattern: &str, text: &str, expect: Option<&[Option<&str>]>) {
    let regex = regex(pattern);
    assert!(matches!(regex.0, Engine::Backtracking(_)), "/{pattern}/ needs no backtracking");
    assert_eq!(found(&regex, text).as_deref(), expect, "/{pattern}/ on {text:?}");
    assert_eq!(regex.is_match(text), Ok(expect.is_some()));
}

#[test]
fn a_word_has_the_same_characters_for_both_engines() {
    let is_found = |pattern: &str, text: &str| regex(pattern).is_match(text);
    // A letter, a mark, a joiner, a digit and a connector of other scripts; none of a word.
    for (text, is_word) in
        [("é", true), ("\u{305}", true), ("\u{200d}", true), ("٣", true), ("‿", true), ("−", false)]
    {
        for pattern in [r"\w", r"^\b"] {
            assert_eq!(is_found(pattern, text), Ok(is_word), "/{pattern}/ on {text:?}");
            assert_eq!(
                is_found(&format!("(?=){pattern}"), text),
                Ok(is_word),
                "going back, /{pattern}/ on {text:?}"
            );
        }
        assert_eq!(is_found(&format!(r"(?=){text}\Ba"), &format!("{text}a")), Ok(is_word), "{text:?}");
    }
}

#[test]
fn what_is_said_of_unicode_is_left_out() {
    assert_eq!(regex(r"(*UCP)(*UTF)^\w$").is_match("é"), Ok(true));
    assert!(Regex::compile("a(*UCP)", "").is_err() && Regex::compile("(*ANYCRLF)a", "").is_err());
}

#[test]
fn look_around_and_back_references() {
    check(r"(\w)\1", "abccd", Some(&[Some("cc"), Some("c")]));
    check(r"^(?=.*a)(?!.*z).*$", "bab", Some(&[Some("bab")]));
    check(r"^(?=.*a)(?!.*z).*$", "baz", None);
    check(r"(?<=\$)\d+", "cost: $42", Some(&[Some("42")]));
    check(r"(?<!\$)\b\d+", "$42 17", Some(&[Some("17")]));
    check(r"(?<=ab|é)c", "xc éc", Some(&[Some("c")]));
    check(r"(?<=^a{1,3})b", "aab", Some(&[Some("b")]));
    check(r"(?>a+)b", "aab", Some(&[Some("aab")]));
    check(r"(?>a|ab)c", "abc", None);
    check(r"a++a", "aaa", None);
    check(r"(a)?(?(1)b|c)", "ab", Some(&[Some("ab"), Some("a")]));
    check(r"(a)?(?(1)b|c)", "c", Some(&[Some("c"), None]));
    check(r"foo\Kbar(?=)", "foobar", Some(&[Some("bar")]));
    check(r"(?i)(é)\1", "éÉ", Some(&[Some("éÉ"), Some("é")]));
    check(r"(?=(a+))\1b", "aab", Some(&[Some("aab"), Some("aa")]));
    check(r"(?:(?=(\d))\d){2,3}?-", "a1234-", Some(&[Some("234-"), Some("4")]));
    check(r"(?=)[^a-c\s]+", "abc déf", Some(&[Some("déf")]));
    check(r"(?=)(x*)*y", "xxy", Some(&[Some("xxy"), Some("")]));
    check(r"(?=)a.c", "a\nc", None);
    check(r"(?=)(?:a|ab)(?:c|bcd)(d*)", "abcd", Some(&[Some("abcd"), Some("")]));
    check(r"(?=)a{2,3}?", "aaaa", Some(&[Some("aa")]));
    check(r"(?m)(?=)^b$", "a\nb\nc", Some(&[Some("b")]));
}

/// Patterns that both engines can run give the same on either.
#[test]
fn the_machine_finds_what_the_linear_engine_finds() {
    let patterns = [
        "a*b",
        "(a|b)*c",
        "(a+)(b?)",
        "a+?b+?",
        "[ab]{2,}c",
        "(?i)AB|c",
        "^b|c$",
        r"\bab\b",
        "(?:ab?)+",
        "(a|ab)(c|bc)?",
        "a{0}b",
        "(a{0,2}){2}b",
        "[^b]+",
        "(?s).b.",
        r"\w+\W",
        "",
        "é|ä+",
    ];
    let texts = ["", "a", "ab", "aab", "abc", "cba", "aabbcc", "ab ab", "b\nac", "éäab", "abababc", "AbC"];
    for pattern in patterns {
        let linear = regex(pattern);
        assert!(matches!(linear.0, Engine::Linear(_)), "/{pattern}/ is linear");
        let machine = regex(&format!("(?=){pattern}").replace("(?=)^b|c$", "(?=)(?:^b|c$)"));
        let machine = if pattern.contains('|') { regex(&format!("(?=)(?:{pattern})")) } else { machine };
        assert!(matches!(machine.0, Engine::Backtracking(_)));
        for text in texts {
            assert_eq!(found(&machine, text), found(&linear, text), "/{pattern}/ on {text:?}");
        }
    }
}

#[test]
fn what_takes_too_long_is_given_up() {
    let long = "a".repeat(20_000);
    for (pattern, text) in [
        (r"(?=(a+))\1b", &long),
        (r"(?:(?=(a*))a)*\1b", &long),
        (r"(?=)(a+)+b", &long),
        (r"(?=)(?:a|a)*b", &long),
        (r"(?<!b)(?:a*a*a*a*)c", &long),
    ] {
        let began = std::time::Instant::now();
        let result = regex(pattern).is_match(text);
        assert!(matches!(result, Err(Failure::MatchLimit | Failure::HeapLimit)), "/{pattern}/: {result:?}");
        assert!(began.elapsed().as_secs() < 10, "/{pattern}/ took {:?}", began.elapsed());
    }
}

#[test]
fn long_texts_are_no_reason_to_give_up() {
    let mut text = "lorem ipsum ".repeat(50_000);
    text.push_str("x17");
    assert_eq!(found(&regex(r"(?<=x)\d+(?!\w)"), &text), Some(vec![Some("17")]));
    assert_eq!(regex(r"^(?=.*x\d).*$").is_match(&text), Ok(true));
}

#[test]
fn a_search_ends_when_it_is_told_to() {
    let _watched = watch(Ends::after(2));
    let result = regex(r"(?=(a+))\1b").is_match(&"a".repeat(100_000));
    assert!(matches!(&result, Err(Failure::Ended(error)) if error.code == 11_601), "{result:?}");
}

#[test]
fn refusals() {
    let refused = |pattern: &str| Regex::compile(pattern, "").expect_err(pattern);
    assert!(refused("(").contains("closing parenthesis") || !refused("(").is_empty());
    assert_eq!(refused(&"a".repeat(32_765)), "regular expression is too large");
    assert_eq!(refused(r"(?<=a+)b"), "lookbehind assertion is not fixed length");
    for recursive in [r"(a\g<1>?b)", "(?R).a", "(?:a(?R)|b)", "(?i-R:a)"] {
        assert_eq!(refused(recursive), "recursion is not supported");
    }
    assert!(Regex::compile(r"\(?R|[(?R]|(?<R>a)|(?#R)", "").is_ok(), "these are something else");
    assert!(!refused(&"(".repeat(1000)).is_empty(), "groups nest to a limit");
}

#[test]
fn large_repetitions_take_little_memory() {
    let regex = regex(r"(?:\w{1000}){1000}");
    assert!(matches!(regex.0, Engine::Backtracking(_)), "its linear form would be large");
    assert_eq!(regex.is_match("short"), Ok(false));
}
