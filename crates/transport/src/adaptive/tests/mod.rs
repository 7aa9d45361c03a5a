//! The model's parts one by one; `transport/tests` has the whole under load, and the model checking.

mod controller;
mod queues;
mod serving;
mod workers;
