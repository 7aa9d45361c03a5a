//! Fields found by name again and again: a walk finds one, a table finds thousands.

use crate::{Document, Element, RawDocument, RawValue, Value};
use std::collections::HashMap;

/// Up to so many look-ups, and fields, walks are quicker than making a table.
const FEW: usize = 16;

/// The fields of a document that is asked for many of them. Of fields with one name the first counts.
#[derive(Debug)]
pub struct FieldIndex<'d> {
    document: RawDocument<'d>,
    /// There for many look-ups. Its hash has a secret: clients choose the names.
    table: Option<HashMap<&'d [u8], Element<'d>>>,
}

impl<'d> FieldIndex<'d> {
    /// An index that will be asked about `lookups` times.
    pub fn new(document: RawDocument<'d>, lookups: usize) -> Self {
        let table = (lookups > FEW).then(|| {
            let mut table = HashMap::new();
            for element in document {
                table.entry(element.name_bytes()).or_insert(element);
            }
            table
        });
        FieldIndex { document, table }
    }

    /// The first field of this name.
    pub fn element(&self, name: &[u8]) -> Option<Element<'d>> {
        match &self.table {
            Some(table) => table.get(name).copied(),
            None => self.document.element(name),
        }
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<RawValue<'d>> {
        self.element(name.as_bytes()).map(Element::value)
    }

    /// Whether there is a field of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.element(name.as_bytes()).is_some()
    }
}

/// A document that is made by setting fields, however many: as [`Document::insert`], without a walk for each.
#[derive(Debug, Clone, Default)]
pub struct Fieldwise {
    document: Document,
    /// Where each field stands, once there are many. Its hash has a secret: clients choose the names.
    places: HashMap<String, usize>,
}

impl Fieldwise {
    /// Sets a field: replaces the value of the field of this name, or appends one. Returns the value
    /// replaced.
    pub fn insert(&mut self, name: String, value: Value) -> Option<Value> {
        match self.get_mut(&name) {
            Some(place) => Some(std::mem::replace(place, value)),
            None => {
                self.push(name, value);
                None
            }
        }
    }

    /// The value of a field, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        if self.document.len() <= FEW {
            return self.document.get_mut(name);
        }
        self.document.value_at_mut(*self.places.get(name)?)
    }

    /// Appends a field whose name is not there yet.
    pub fn push(&mut self, name: String, value: Value) {
        if self.document.len() >= FEW {
            if self.places.is_empty() {
                self.index();
            }
            self.places.entry(name.clone()).or_insert(self.document.len());
        }
        self.document.push(name, value);
    }

    fn index(&mut self) {
        for (place, (name, _)) in self.document.iter().enumerate() {
            self.places.entry(name.to_owned()).or_insert(place);
        }
    }

    /// The document.
    pub fn into_document(self) -> Document {
        self.document
    }
}

impl From<Document> for Fieldwise {
    fn from(document: Document) -> Self {
        let mut fieldwise = Fieldwise { document, places: HashMap::new() };
        if fieldwise.document.len() > FEW {
            fieldwise.index();
        }
        fieldwise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    fn many(fields: i32) -> Document {
        (0..fields).map(|number| (format!("f{number}"), number)).collect()
    }

    #[test]
    fn walks_and_tables_find_the_same() {
        let mut document = many(100);
        document.push("f7", "again");
        let document = document.to_buf();
        for lookups in [1, 1000] {
            let index = FieldIndex::new(document.as_raw(), lookups);
            assert_eq!(index.get("f7"), Some(RawValue::Int32(7)), "the first of two");
            assert!(index.contains("f99") && !index.contains("f100"));
        }
    }

    #[test]
    fn setting_fields_is_as_inserting_them() {
        for fields in [5, 16, 17, 40] {
            let (mut plain, mut fieldwise) = (Document::new(), Fieldwise::default());
            for round in 0..2 {
                for number in 0..fields {
                    plain.insert(format!("f{number}"), number + round);
                    fieldwise.insert(format!("f{number}"), Value::Int32(number + round));
                }
            }
            assert_eq!(fieldwise.into_document(), plain, "{fields} fields");
        }
    }

    #[test]
    fn a_given_document_is_indexed() {
        for fields in [3, 30] {
            let mut fieldwise = Fieldwise::from(many(fields));
            *fieldwise.get_mut("f2").expect("there") = Value::Null;
            fieldwise.insert("g".to_owned(), doc! {}.into());
            let document = fieldwise.into_document();
            assert_eq!(document.get("f2"), Some(&Value::Null));
            assert_eq!(document.len(), fields as usize + 1);
        }
    }
}
