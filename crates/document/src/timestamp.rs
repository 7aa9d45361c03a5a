//! Timestamps of now: one after the other, and in the place of empty ones.
//!
//! Source: MongoDB manual, "BSON Types: Timestamps".

use crate::{DocumentBuf, DocumentBuilder, Element, RawDocument, RawValue, Timestamp};

impl Timestamp {
    /// The current time, later than every timestamp this process has had from here before.
    pub fn now() -> Self {
        Timestamp::from_u64(ambient::timestamp())
    }
}

impl RawDocument<'_> {
    /// The document with the current time where it has an empty timestamp at its top level, `_id` excepted;
    /// `None` when it has none. Inserted documents and replacements are stored so.
    pub fn with_current_timestamps(self) -> Option<DocumentBuf> {
        self.iter().find(is_empty_timestamp)?;
        let mut bytes = Vec::with_capacity(self.as_bytes().len());
        let mut builder = DocumentBuilder::new(&mut bytes);
        for element in self.iter() {
            match is_empty_timestamp(&element) {
                true => builder.append(element.name(), RawValue::Timestamp(Timestamp::now())),
                false => builder.append_element(element),
            };
        }
        builder.finish();
        Some(DocumentBuf::trusted(bytes))
    }
}

fn is_empty_timestamp(element: &Element<'_>) -> bool {
    const EMPTY: RawValue<'static> = RawValue::Timestamp(Timestamp { time: 0, increment: 0 });
    element.kind() == crate::ElementType::Timestamp
        && element.value() == EMPTY
        && element.name_bytes() != b"_id"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, doc};

    const EMPTY: Timestamp = Timestamp { time: 0, increment: 0 };

    /// The names of the fields that are given another value.
    #[track_caller]
    fn check(input: Document, expect: &[&str]) {
        let stamped =
            input.to_buf().as_raw().with_current_timestamps().map(|found| found.as_raw().to_document());
        let stamped = stamped.unwrap_or_else(|| input.clone());
        assert!(stamped.iter().map(|(name, _)| name).eq(input.iter().map(|(name, _)| name)), "{stamped:?}");
        let changed: Vec<&str> = input
            .iter()
            .filter(|(name, value)| stamped.get(name) != Some(*value))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(changed, expect);
    }

    #[test]
    fn empty_timestamps_at_the_top_level() {
        check(doc! { "_id": 1, "a": EMPTY, "b": "x", "c": EMPTY }, &["a", "c"]);
        check(doc! { "_id": EMPTY, "a": { "b": EMPTY }, "c": [EMPTY] }, &[]);
        check(
            doc! { "a": (Timestamp { time: 0, increment: 1 }), "b": (Timestamp { time: 1, increment: 0 }) },
            &[],
        );
    }

    #[test]
    fn timestamps_grow() {
        let stamps: Vec<Timestamp> = (0..1000).map(|_| Timestamp::now()).collect();
        assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
