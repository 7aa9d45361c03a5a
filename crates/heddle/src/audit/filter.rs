//! The text of `auditLog.filter`: JSON as the shell takes it, with names that need no quotes, text in single
//! quotes, and regular expressions between slashes.
//!
//! Source: MongoDB manual, "Configure Audit Filters".

use document::{Document, Value};

/// Documents within documents at most.
const DEPTH_MAX: usize = 100;

/// Reads a query document.
///
/// # Errors
/// What is wrong with the text, and where.
pub(super) fn parse(text: &str) -> Result<Document, String> {
    let mut reader = FilterReader { text, at: 0, depth: 0 };
    let document = reader.document()?;
    reader.skip_space();
    match reader.rest() {
        "" => Ok(document),
        _ => Err(reader.expected("the end")),
    }
}

struct FilterReader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> FilterReader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn expected(&self, what: &str) -> String {
        let found: String = self.rest().chars().take(20).collect();
        match found.is_empty() {
            true => format!("expected {what}, found the end"),
            false => format!("expected {what} at byte {}, found '{found}'", self.at),
        }
    }

    /// Takes this character, behind any space, if it is the next one.
    fn takes(&mut self, wanted: char) -> bool {
        self.skip_space();
        let is_next = self.next() == Some(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    fn needs(&mut self, wanted: char) -> Result<(), String> {
        match self.takes(wanted) {
            true => Ok(()),
            false => Err(self.expected(&format!("'{wanted}'"))),
        }
    }

    fn document(&mut self) -> Result<Document, String> {
        self.needs('{')?;
        self.deeper()?;
        let mut document = Document::new();
        while !self.takes('}') {
            if !document.is_empty() {
                self.needs(',')?;
                // A comma may stand behind the last field.
                if self.takes('}') {
                    break;
                }
            }
            let name = self.name()?;
            self.needs(':')?;
            document.push(name, self.value()?);
        }
        self.depth -= 1;
        Ok(document)
    }

    fn array(&mut self) -> Result<Vec<Value>, String> {
        self.needs('[')?;
        self.deeper()?;
        let mut values = Vec::new();
        while !self.takes(']') {
            if !values.is_empty() {
                self.needs(',')?;
                if self.takes(']') {
                    break;
                }
            }
            values.push(self.value()?);
        }
        self.depth -= 1;
        Ok(values)
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        match self.depth <= DEPTH_MAX {
            true => Ok(()),
            false => Err(format!("more than {DEPTH_MAX} documents within each other")),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        self.skip_space();
        if let Some('"' | '\'') = self.next() {
            return self.quoted();
        }
        match self.word() {
            "" => Err(self.expected("a field's name")),
            name => Ok(name.to_owned()),
        }
    }

    /// Letters, digits, `_` and `$`.
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let is_outside = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '$'));
        let word = rest.get(..rest.find(is_outside).unwrap_or(rest.len())).unwrap_or_default();
        self.at += word.len();
        word
    }

    fn value(&mut self) -> Result<Value, String> {
        self.skip_space();
        match self.next() {
            Some('{') => extended(self.document()?),
            Some('[') => self.array().map(Value::from),
            Some('"' | '\'') => self.quoted().map(Value::from),
            Some('/') => self.regex(),
            Some('-' | '0'..='9') => self.number(),
            _ => {
                let start = self.at;
                match self.word() {
                    "true" => Ok(Value::Boolean(true)),
                    "false" => Ok(Value::Boolean(false)),
                    "null" => Ok(Value::Null),
                    _ => {
                        self.at = start;
                        Err(self.expected("a value"))
                    }
                }
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let is_outside = |letter: char| !matches!(letter, '0'..='9' | '+' | '-' | '.' | 'e' | 'E');
        let text = rest.get(..rest.find(is_outside).unwrap_or(rest.len())).unwrap_or_default();
        let number = match (text.parse::<i32>(), text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _, _) => Value::Int32(number),
            (_, Ok(number), _) => Value::Int64(number),
            (_, _, Ok(number)) => Value::Double(number),
            _ => return Err(self.expected("a number")),
        };
        self.at += text.len();
        Ok(number)
    }

    fn quoted(&mut self) -> Result<String, String> {
        let start = self.at;
        let quote = self.next();
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(letter) = self.next() else {
                self.at = start;
                return Err(self.expected("text with an end"));
            };
            self.at += letter.len_utf8();
            match letter {
                letter if Some(letter) == quote => return Ok(text),
                '\\' => text.push(self.escaped()?),
                letter => text.push(letter),
            }
        }
    }

    /// What is behind a backslash.
    fn escaped(&mut self) -> Result<char, String> {
        let Some(letter) = self.next() else { return Err(self.expected("text with an end")) };
        self.at += letter.len_utf8();
        Ok(match letter {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let digits = self.rest().get(..4).unwrap_or_default();
                let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                let code = code.ok_or_else(|| self.expected("four hexadecimal digits of a character"))?;
                self.at += digits.len();
                code
            }
            other => other,
        })
    }

    fn regex(&mut self) -> Result<Value, String> {
        let start = self.at;
        self.at += 1;
        let mut pattern = String::new();
        loop {
            let Some(letter) = self.next() else {
                self.at = start;
                return Err(self.expected("a regular expression with an end"));
            };
            self.at += letter.len_utf8();
            match letter {
                '/' => break,
                // A slash is the only character whose backslash is ours.
                '\\' if self.next() == Some('/') => {
                    pattern.push('/');
                    self.at += 1;
                }
                '\\' => {
                    pattern.push('\\');
                    if let Some(kept) = self.next() {
                        pattern.push(kept);
                        self.at += kept.len_utf8();
                    }
                }
                letter => pattern.push(letter),
            }
        }
        Ok(Value::regex(pattern, self.word()))
    }
}

/// `{ $date: … }` and its like stand for one value; other documents stand for themselves.
fn extended(document: Document) -> Result<Value, String> {
    let Some((name, value)) = document.first().filter(|_| document.len() == 1) else {
        return Ok(Value::Document(document));
    };
    let integer = |value: &Value| value.as_str().and_then(|text| text.parse::<i64>().ok());
    match (name, value) {
        ("$numberLong", text) => {
            integer(text).map(Value::Int64).ok_or_else(|| "$numberLong takes digits in quotes".to_owned())
        }
        ("$date", Value::Int32(moment)) => Ok(Value::DateTime(i64::from(*moment))),
        ("$date", Value::Int64(moment)) => Ok(Value::DateTime(*moment)),
        ("$date" | "$oid" | "$binary" | "$timestamp" | "$uuid" | "$numberDecimal", _) => {
            Err(format!("{name} is not taken here but for $date with milliseconds since 1970"))
        }
        _ => Ok(Value::Document(document)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{array, doc};

    #[track_caller]
    fn check(text: &str, expect: Document) {
        assert_eq!(parse(text), Ok(expect), "{text}");
    }

    #[test]
    fn filters_are_read_as_the_manual_writes_them() {
        check("{}", doc! {});
        check(
            r#"{ atype: { $in: [ "createCollection", "dropCollection" ] } }"#,
            doc! { "atype": { "$in": (array!["createCollection", "dropCollection"]) } },
        );
        check(
            r#"{ atype: "authenticate", "param.db": "test" }"#,
            doc! { "atype": "authenticate", "param.db": "test" },
        );
        let regex = |pattern| Value::regex(pattern, "i");
        check(r"{ 'param.ns': /^te\/s\.t/i, }", doc! { "param.ns": (regex(r"^te/s\.t")) });
        check(
            r#"{"a":[1,-2.5,30000000000,{"b":null},[],true],"c":"q\"A\n"}"#,
            doc! {
                "a": [1, (-2.5), 30_000_000_000_i64, { "b": (Value::Null) }, [], true], "c": "q\"A\n",
            },
        );
        check(
            "{ts:{$gte:{$date:1700000000000}}}",
            doc! { "ts": { "$gte": (Value::DateTime(1_700_000_000_000)) } },
        );
    }

    #[test]
    fn what_is_no_filter_is_refused_with_its_place() {
        for (text, reason) in [
            ("", "expected '{', found the end"),
            ("[]", "expected '{' at byte 0, found '[]'"),
            ("{ a: 1", "expected ',', found the end"),
            ("{ a: 1 } b", "expected the end at byte 9, found 'b'"),
            ("{ a: b }", "expected a value at byte 5, found 'b }'"),
            ("{ a: 'b }", "expected text with an end at byte 5, found ''b }'"),
            ("{ : 1 }", "expected a field's name at byte 2, found ': 1 }'"),
            ("{ a: 1-1 }", "expected a number at byte 5, found '1-1 }'"),
        ] {
            assert_eq!(parse(text), Err(reason.to_owned()), "{text}");
        }
        assert!(parse(&"{a:".repeat(1000)).expect_err("too deep").starts_with("more than 100"));
    }
}
