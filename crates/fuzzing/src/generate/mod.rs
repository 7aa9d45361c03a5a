//! What is made of bytes: values, and whatever the query language has. Mostly what parses, sometimes what
//! does not.

mod aggregate;
mod bytes;
mod expression;
mod filter;
mod projection;
mod regex;
mod schema;
mod update;
mod value;

pub(crate) use aggregate::pipeline;
pub(crate) use bytes::mutated;
pub(crate) use expression::expression;
pub(crate) use filter::filter;
pub(crate) use projection::projection;
pub(crate) use regex::{pattern, regex_options, searched_text};
pub(crate) use schema::schema;
pub(crate) use update::{array_filters, update};
pub(crate) use value::{document, field, int, operand, path, spoiled, stored, text, value};
