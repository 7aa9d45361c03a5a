//! The server over real sockets, under every thread model.
#![expect(clippy::indexing_slicing, reason = "a test that reads out of bounds shall fail")]

/// Runs each function as a test under every thread model.
macro_rules! for_each_executor {
    ($($name:ident)*) => {
        for_each_executor! { @model synchronous Synchronous $($name)* }
        for_each_executor! { @model adaptive Adaptive $($name)* }
        for_each_executor! { @model reactor Reactor $($name)* }
        for_each_executor! { @model coroutine Coroutine $($name)* }
    };
    (@model $module:ident $model:ident $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                super::$name(transport::ServiceExecutor::$model);
            })*
        }
    };
}

mod adaptive;
mod ends;
mod idle;
mod lane;
mod large_requests;
mod messages;
mod models;
mod serving;
mod support;
mod tls;
mod unread;
