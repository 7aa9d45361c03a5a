//! TOML values with their places, so that every complaint names file, line and key.

use document::Value;
use jiff::civil::{DateTime, date, time};
use jiff::tz::TimeZone;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file that is read.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    path: &'a str,
    text: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(path: &'a str, text: &'a str) -> Self {
        Reader { path, text }
    }

    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'a>>, String> {
        DeTable::parse(self.text).map_err(|error| {
            let place = error.span().map_or(0, |span| span.start);
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            format!("{}:{}: {message}", self.path, self.line(place))
        })
    }

    /// Counted from 1.
    fn line(&self, place: usize) -> usize {
        1 + self.text.bytes().take(place).filter(|byte| *byte == b'\n').count()
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    reader: &'a Reader<'a>,
    /// Dotted, for messages.
    key: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    /// A complaint about this value.
    pub(crate) fn fail(&self, problem: &str) -> String {
        let line = self.reader.line(self.value.span().start);
        format!("{}:{line}: {}: {problem}", self.reader.path, self.key)
    }

    fn expected(&self, what: &str) -> String {
        self.fail(&format!("expected {what}, found {}", kind(self.value.get_ref())))
    }

    pub(crate) fn text(&self) -> Result<&'a str, String> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.expected("a string")),
        }
    }

    pub(crate) fn integer(&self) -> Result<i64, String> {
        match self.value.get_ref() {
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .map_err(|_| self.fail("the integer does not fit into 64 bits")),
            _ => Err(self.expected("an integer")),
        }
    }

    /// An integer from 0.
    pub(crate) fn whole(&self) -> Result<u64, String> {
        u64::try_from(self.integer()?).map_err(|_| self.fail("expected an integer from 0"))
    }

    /// An integer or a float, finite.
    pub(crate) fn number(&self) -> Result<f64, String> {
        let number = match self.value.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            DeValue::Integer(_) => Some(self.integer()? as f64),
            _ => return Err(self.expected("a number")),
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| self.fail("expected a finite number"))
    }

    /// Milliseconds since 1970. Without an offset it is UTC, without a time midnight.
    pub(crate) fn date(&self) -> Result<i64, String> {
        let DeValue::Datetime(found) = self.value.get_ref() else { return Err(self.expected("a date")) };
        let day = found.date.ok_or_else(|| self.fail("a time alone is no date"))?;
        let clock = found.time.map_or_else(time_zero, |clock| {
            time(
                clock.hour as i8,
                clock.minute as i8,
                clock.second.unwrap_or_default().min(59) as i8,
                clock.nanosecond.unwrap_or_default() as i32,
            )
        });
        let moment = DateTime::from_parts(date(day.year as i16, day.month as i8, day.day as i8), clock);
        let utc = moment.to_zoned(TimeZone::UTC).map_err(|error| self.fail(&error.to_string()))?;
        const MILLISECONDS_PER_MINUTE: i64 = 60_000;
        let offset = match found.offset {
            Some(toml::value::Offset::Custom { minutes }) => i64::from(minutes) * MILLISECONDS_PER_MINUTE,
            _ => 0,
        };
        Ok(utc.timestamp().as_millisecond() - offset)
    }

    /// A constant; `None` for arrays and tables. Integers are 32 bits wide where they fit.
    pub(crate) fn scalar(&self) -> Result<Option<Value>, String> {
        Ok(Some(match self.value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(_) => {
                let wide = self.integer()?;
                i32::try_from(wide).map_or(Value::Int64(wide), Value::Int32)
            }
            DeValue::Float(float) => match float.as_str().parse() {
                Ok(number) => Value::Double(number),
                Err(_) => return Err(self.fail("expected a number")),
            },
            DeValue::Boolean(flag) => Value::Boolean(*flag),
            DeValue::Datetime(_) => Value::DateTime(self.date()?),
            DeValue::Array(_) | DeValue::Table(_) => return Ok(None),
        }))
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(_))
    }

    pub(crate) fn array(&self) -> Result<Vec<Item<'a>>, String> {
        let DeValue::Array(values) = self.value.get_ref() else { return Err(self.expected("an array")) };
        let item =
            |(index, value)| Item { reader: self.reader, key: format!("{}[{index}]", self.key), value };
        Ok(values.iter().enumerate().map(item).collect())
    }

    pub(crate) fn table(&self) -> Result<Table<'a>, String> {
        let DeValue::Table(table) = self.value.get_ref() else { return Err(self.expected("a table")) };
        Ok(Table {
            reader: self.reader,
            key: self.key.clone(),
            place: self.value.span().start,
            table,
            taken: Vec::new(),
        })
    }
}

fn time_zero() -> jiff::civil::Time {
    time(0, 0, 0, 0)
}

const fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A table whose keys are taken out one by one; what is left over is a mistake.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    reader: &'a Reader<'a>,
    key: String,
    place: usize,
    table: &'a DeTable<'a>,
    taken: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// The file itself.
    pub(crate) fn top(reader: &'a Reader<'a>, parsed: &'a Spanned<DeTable<'a>>) -> Self {
        Table { reader, key: String::new(), place: 0, table: parsed.get_ref(), taken: Vec::new() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    pub(crate) fn take(&mut self, name: &'static str) -> Option<Item<'a>> {
        self.taken.push(name);
        let value = self.table.get(name)?;
        Some(Item { reader: self.reader, key: self.key_of(name), value })
    }

    pub(crate) fn require(&mut self, name: &'static str) -> Result<Item<'a>, String> {
        self.take(name).ok_or_else(|| {
            let line = self.reader.line(self.place);
            let of = if self.key.is_empty() { String::new() } else { format!("{}: ", self.key) };
            format!("{}:{line}: {of}the key '{name}' is missing", self.reader.path)
        })
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<&'a str>, String> {
        self.take(name).map(|item| item.text()).transpose()
    }

    pub(crate) fn whole(&mut self, name: &'static str) -> Result<Option<u64>, String> {
        self.take(name).map(|item| item.whole()).transpose()
    }

    /// Every key, in the order of the file.
    pub(crate) fn items(&self) -> Vec<(&'a str, Item<'a>)> {
        let item = |(name, value): (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>)| {
            let name: &'a str = name.get_ref();
            (name, Item { reader: self.reader, key: self.key_of(name), value })
        };
        self.table.iter().map(item).collect()
    }

    /// # Errors
    /// When there is a key that nobody took.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.items().into_iter().find(|(name, _)| !self.taken.contains(name)) {
            Some((_, item)) => Err(item.fail(&format!("unknown key; there are {}", self.taken.join(", ")))),
            None => Ok(()),
        }
    }

    fn key_of(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }
}
