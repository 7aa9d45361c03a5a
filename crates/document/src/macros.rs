//! `doc!`, `doc_buf!` and `array!`: documents and arrays written as literals.

/// A [`Document`](crate::Document) literal: `doc! { "a": 1, "b": { "c": [1, "x"] } }`. Values are expressions
/// that convert into [`Value`](crate::Value), braces are documents, brackets are arrays.
#[macro_export]
macro_rules! doc {
    ($($fields:tt)*) => {{
        #[allow(unused_mut, reason = "an empty literal changes nothing")]
        let mut document = $crate::Document::new();
        $crate::document_fields!(document; $($fields)*);
        document
    }};
}

/// A [`DocumentBuf`](crate::DocumentBuf) literal, written like [`doc!`].
#[macro_export]
macro_rules! doc_buf {
    ($($fields:tt)*) => { $crate::doc! { $($fields)* }.to_buf() };
}

/// A `Vec<Value>` literal, written like an array within [`doc!`].
#[macro_export]
macro_rules! array {
    ($($values:tt)*) => {{
        #[allow(unused_mut, reason = "an empty literal changes nothing")]
        let mut values: Vec<$crate::Value> = Vec::from([]);
        $crate::array_values!(values; $($values)*);
        values
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! document_fields {
    ($document:ident;) => {};
    ($document:ident; $name:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $document.push($name, $crate::doc! { $($inner)* });
        $crate::document_fields!($document; $($($rest)*)?);
    };
    ($document:ident; $name:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $document.push($name, $crate::array![ $($inner)* ]);
        $crate::document_fields!($document; $($($rest)*)?);
    };
    ($document:ident; $name:tt : $value:expr $(, $($rest:tt)*)?) => {
        $document.push($name, $value);
        $crate::document_fields!($document; $($($rest)*)?);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! array_values {
    ($values:ident;) => {};
    ($values:ident; { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $values.push($crate::Value::from($crate::doc! { $($inner)* }));
        $crate::array_values!($values; $($($rest)*)?);
    };
    ($values:ident; [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $values.push($crate::Value::from($crate::array![ $($inner)* ]));
        $crate::array_values!($values; $($($rest)*)?);
    };
    ($values:ident; $value:expr $(, $($rest:tt)*)?) => {
        $values.push($crate::Value::from($value));
        $crate::array_values!($values; $($($rest)*)?);
    };
}
