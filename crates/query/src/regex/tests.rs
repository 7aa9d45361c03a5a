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

/// What both engines take for a word's character.
#[track_caller]
fn check_word(settings: &str, text: &str, is_word: bool) {
    for pattern in [r"\w", r"^\b", r"[^\W]", r"(?=)\w", r"(?=)^\b", r"^(?!\W)."] {
        let pattern = format!("{settings}{pattern}");
        assert_eq!(regex(&pattern).is_match(text), Ok(is_word), "/{pattern}/ on {text:?}");
    }
    for pattern in [r"\B", r"(?=)\B"] {
        let pattern = format!("{settings}^{text}{pattern}a");
        assert_eq!(regex(&pattern).is_match(&format!("{text}a")), Ok(is_word), "/{pattern}/ on {text:?}");
    }
}

#[test]
fn a_word_is_made_of_ascii_unless_all_scripts_are_asked_for() {
    // A letter, a mark, a joiner, a digit and a connector of other scripts.
    for text in ["é", "\u{305}", "\u{200d}", "٣", "‿"] {
        check_word("", text, false);
        check_word("(*UCP)", text, true);
        check_word("(*UTF)(*UCP)", text, true);
    }
    for settings in ["", "(*UCP)", "(*UTF)"] {
        check_word(settings, "a", true);
        check_word(settings, "_", true);
        check_word(settings, "−", false);
    }
    // Cases are those of all scripts in any case, but what stands for a set has none.
    assert_eq!(Regex::compile("É", "i").unwrap().is_match("é"), Ok(true));
    for (pattern, is_found) in [(r"k", true), (r"[j-l]", true), (r"\w", false), (r"[\w]", false)] {
        assert_eq!(Regex::compile(pattern, "i").unwrap().is_match("\u{212a}"), Ok(is_found), "/{pattern}/i");
    }
    assert!(Regex::compile("a(*UCP)", "").is_err() && Regex::compile("(*ANYCRLF)a", "").is_err());
}

/// What matches, and what does not, as PCRE2 10.42 has it.
#[test]
fn patterns_are_read_as_pcre2_reads_them() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        // Places.
        ("a$", &["a", "a\n", "ba\n"], &["a\n\n", "a\nb"]),
        (r"a\Z", &["a", "a\n"], &["a\n\n"]),
        (r"a\z", &["a"], &["a\n"]),
        ("(?m)a$", &["a", "a\n\n", "a\nb"], &["ab"]),
        ("(?m)^$", &["", "\n", "a\n\nb"], &["a\n", "a"]),
        ("(?m)^a", &["a", "b\na"], &["ba"]),
        (r"\<b\>", &["<b>"], &["b"]),
        // Escapes.
        (r"^\h\H$", &["\ta", " \n"], &["a ", "\n\n"]),
        (r"^\v\V$", &["\na", "\u{2028} "], &["a\n"]),
        (r"^\N$", &["a"], &["\n\n"]),
        (r"^\R$", &["\r\n", "\n", "\u{85}"], &["a"]),
        (r"^\x41\x{42}\x4g\103\o{104}\N{U+45}$", &["AB\u{4}gCDE"], &[]),
        (r"^\0\08\cA\e\a$", &["\0\u{0}8\u{1}\u{1b}\u{7}"], &[]),
        (r"^\Qa.b\E.$", &["a.bc"], &["axbc"]),
        (r"^\Qa*\E*b$", &["ab", "a**b"], &["aab"]),
        (r"^\Q(", &["("], &[]),
        (r"\_\-\é", &["_-é"], &[]),
        // Classes.
        (r"^[[\]]+$", &["[]"], &["a"]),
        ("^[]a]+$", &["]a"], &["b"]),
        ("^[^]a]+$", &["b\n"], &["]"]),
        ("^[a&&b]+$", &["&ab"], &["c"]),
        ("^[+--~~]+$", &["-,", "+~"], &["b"]),
        ("^[[:alpha:]_]+$", &["a_"], &["1", "é"]),
        ("^[[:^alpha:]]+$", &["1é"], &["a"]),
        ("^[:alp]+$", &[":a"], &["b"]),
        (r"^[\w-]+$", &["a-"], &["é"]),
        (r"^[\b\x41-C\1]+$", &["\u{8}B\u{1}"], &["D"]),
        (r"^[\Qa]\E]+$", &["a]"], &["b"]),
        (r"^[^\W\d]+$", &["a_"], &["1", "é"]),
        (r"^[\pL]+\PL$", &["é1"], &["1é"]),
        (r"^\p{Greek}\p{^Greek}$", &["αa"], &["aα"]),
        ("(?i)^[é]$", &["É"], &["e"]),
        (r"(?i)^\p{Lu}$", &["A"], &["a"]),
        ("(?xx)^[a b]$", &["a", "b"], &[" "]),
        // Quantifiers.
        ("^a{,2}$", &["a{,2}"], &["aa"]),
        ("^a{x}{2}$", &["a{x}}"], &["a{x}"]),
        ("^a{2}$", &["aa"], &["a{2}"]),
        ("^(?:a|ab)++c", &["aac"], &["abc"]),
        ("(?U)^a+?b", &["aab"], &[]),
        // Groups and options.
        ("^(?i)a(?-i)b", &["Ab"], &["AB"]),
        ("^(?:(?i)a|b)c", &["Ac", "Bc"], &["AC"]),
        ("^(?i:a)b", &["Ab"], &["AB"]),
        ("^(?i)a(?^)b", &["Ab"], &["AB"]),
        ("(?n)^(a)(?<b>b)\\k<b>$", &["abb"], &["aba"]),
        ("(?x) ^ a b # c\n [ ] \\  (?# x ) + $", &["ab  "], &["ab "]),
        (r"^(a)(?P<n>b)\1\g2\g{-1}\k{n}\k'n'(?P=n)$", &["ababbbbb"], &["ab"]),
        (r"^(a)\10$", &["a\u{8}"], &["a"]),
        (r"^(?:(a)|b)(?(1)c|d)$", &["ac", "bd"], &["ad"]),
        (r"^(?<n>a)?(?(<n>)b|c)$", &["ab", "c"], &["b"]),
        (r"^(?'n'a)?(?(n)b)$", &["ab", ""], &["a", "b"]),
        (r"\G\w\K", &["a"], &["-a"]),
    ];
    for (pattern, matching, others) in cases {
        for (texts, is_match) in [(matching, true), (others, false)] {
            for text in *texts {
                assert_eq!(regex(pattern).is_match(text), Ok(is_match), "/{pattern}/ on {text:?}");
                let going_back = regex(&format!("(?=){pattern}"));
                assert!(
                    pattern.contains('|') || going_back.is_match(text) == Ok(is_match),
                    "/{pattern}/ back"
                );
            }
        }
    }
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
        assert!(matches!(linear.0, Engine::Linear { .. }), "/{pattern}/ is linear");
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
fn what_is_wrong_with_a_pattern_is_told_in_pcre2s_words() {
    let refused = |pattern: &str| Regex::compile(pattern, "").expect_err(pattern);
    for (pattern, expect) in [
        ("(", "missing closing parenthesis"),
        ("(?i", "missing closing parenthesis"),
        ("a)", "unmatched closing parenthesis"),
        ("a(?#b", "missing ) after (?# comment"),
        ("*a", "quantifier does not follow a repeatable item"),
        ("^*a", "quantifier does not follow a repeatable item"),
        (r"\b+", "quantifier does not follow a repeatable item"),
        ("a{2}{3}", "quantifier does not follow a repeatable item"),
        ("a|{2}", "quantifier does not follow a repeatable item"),
        ("a{65536}", "number too big in {} quantifier"),
        ("a{3,2}", "numbers out of order in {} quantifier"),
        ("[a", "missing terminating ] for character class"),
        ("[]", "missing terminating ] for character class"),
        ("[b-a]", "range out of order in character class"),
        (r"[a-\d]", "invalid range in character class"),
        (r"[\d-z]", "invalid range in character class"),
        ("[[:foo:]]", "unknown POSIX class name"),
        ("[[.a.]]", "POSIX collating elements are not supported"),
        ("[[:a:b:]]", "unknown POSIX class name"),
        ("[.a.]", "POSIX collating elements are not supported"),
        ("[:alpha:]", "POSIX named classes are supported only within a class"),
        (r"[\B]", "escape sequence is invalid in character class"),
        (r"[a\k<n>]", "escape sequence is invalid in character class"),
        (r"[\N]", r"\N is not supported in a class"),
        (r"a\", r"\ at end of pattern"),
        (r"\c", r"\c at end of pattern"),
        (r"\i", r"unrecognized character follows \"),
        (r"\u0041", r"PCRE2 does not support \F, \L, \l, \N{name}, \U, or \u"),
        (r"\x{110000}", r"character code point value in \x{} or \o{} is too large"),
        (r"\x{d800}", "disallowed Unicode code point (>= 0xd800 && <= 0xdfff)"),
        (r"\o{8}", r"non-octal character in \o{} (closing brace missing?)"),
        (r"\p{Foo}", r"unknown property after \P or \p"),
        (r"\p{", r"malformed \P or \p sequence"),
        (r"\8", "reference to non-existent subpattern"),
        (r"\g{-1}(a)", "reference to non-existent subpattern"),
        (r"\k<x>", "reference to non-existent subpattern"),
        ("(?<n>a)(?<n>b)", "two named subpatterns have the same name (PCRE2_DUPNAMES not set)"),
        ("(?<1a>b)", "subpattern name must start with a non-digit"),
        ("(?<>b)", "subpattern name expected"),
        ("(?<a", "syntax error in subpattern name (missing terminator?)"),
        ("(?a)", "unrecognized character after (? or (?-"),
        ("(?i-m-s)", "invalid hyphen in option setting"),
        ("(?(1)a|b|c)(d)", "conditional subpattern contains more than two branches"),
        (r"(?<=a+)b", "lookbehind assertion is not fixed length"),
        // What PCRE2 can do.
        ("a(*UCP)", "a backtracking control verb is not supported"),
        ("(?|a|b)", "a group that counts its branches anew is not supported"),
        (r"(a\g<1>?b)", "recursion is not supported"),
        ("(?R).a", "recursion is not supported"),
        ("(?:a(?R)|b)", "recursion is not supported"),
        ("(a)(?-1)", "recursion is not supported"),
        (r"\X", r"\X is not supported"),
    ] {
        assert_eq!(refused(pattern), expect, "/{pattern}/");
    }
    assert_eq!(refused(&"a".repeat(32_765)), "regular expression is too large");
    assert_eq!(refused(&r"\pL".repeat(1_000)), "regular expression is too large");
    assert!(Regex::compile(r"\(?R|[(?R]|(?<R>a)|(?#R)", "").is_ok(), "these are something else");
}

#[test]
fn groups_nest_to_a_limit_that_fits_the_smallest_stack() {
    let nested = |depth: usize| format!("{}a{}", "((?=)".repeat(depth / 2), ")*".repeat(depth / 2));
    let compiled = |pattern: String| {
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        let thread = thread.spawn(move || Regex::compile(&pattern, "i")).expect("a thread");
        thread.join().expect("its stack is large enough")
    };
    assert!(compiled(nested(128)).is_ok());
    assert!(compiled(format!("{}a{}", "(".repeat(128), ")*".repeat(128))).is_ok());
    assert_eq!(compiled("(".repeat(129)).unwrap_err(), "parentheses are too deeply nested");
}

#[test]
fn large_repetitions_take_little_memory() {
    let regex = regex(r"(?:\w{1000}){1000}");
    assert!(matches!(regex.0, Engine::Backtracking(_)), "its linear form would be large");
    assert_eq!(regex.is_match("short"), Ok(false));
}
