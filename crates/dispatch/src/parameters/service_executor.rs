//! The form of `net.serviceExecutor`: one thread model for all listeners, or one for each.

/// The thread models by their names.
pub const SERVICE_EXECUTORS: [&str; 5] = ["synchronous", "adaptive", "reactor", "coroutine", "auto"];

/// Which thread model serves which listener.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutorChoice<'t> {
    /// The model of listeners that are not named.
    pub others: Option<&'t str>,
    /// Listeners by their entry in `net.bindIp` (a Unix socket by its path), with their models.
    pub listeners: Vec<(&'t str, &'t str)>,
}

impl<'t> ExecutorChoice<'t> {
    /// Reads `reactor` or `127.0.0.1=reactor, ::1=adaptive, synchronous`.
    ///
    /// # Errors
    /// A sentence about the part that cannot be.
    pub fn parse(text: &'t str) -> Result<Self, String> {
        let mut choice = ExecutorChoice::default();
        for part in text.split(',').map(str::trim) {
            let (listener, model) = match part.split_once('=') {
                Some((listener, model)) => (Some(listener.trim()), model.trim()),
                None => (None, part),
            };
            if !SERVICE_EXECUTORS.contains(&model) {
                return Err(format!("'{model}' is none of: {}", SERVICE_EXECUTORS.join(", ")));
            }
            match listener {
                Some("") => return Err(format!("'{part}' names no address")),
                Some(listener) if choice.listeners.iter().any(|(known, _)| *known == listener) => {
                    return Err(format!("'{listener}' is there twice"));
                }
                Some(listener) => choice.listeners.push((listener, model)),
                None if choice.others.is_some() => {
                    return Err(format!("'{part}' would be a second model for all other addresses"));
                }
                None => choice.others = Some(model),
            }
        }
        Ok(choice)
    }

    /// As [`ExecutorChoice::parse`], for the table.
    pub(super) fn check(text: &str) -> Result<(), String> {
        ExecutorChoice::parse(text).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<ExecutorChoice<'_>, &str>) {
        assert_eq!(ExecutorChoice::parse(text), expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn one_for_all_or_one_for_each() {
        let of = |others, listeners: &[(&'static str, &'static str)]| ExecutorChoice {
            others,
            listeners: listeners.to_vec(),
        };
        check("reactor", Ok(of(Some("reactor"), &[])));
        check("127.0.0.1=adaptive", Ok(of(None, &[("127.0.0.1", "adaptive")])));
        check(
            "::1 = auto, /tmp/a.sock=coroutine ,synchronous",
            Ok(of(Some("synchronous"), &[("::1", "auto"), ("/tmp/a.sock", "coroutine")])),
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let none = |name| format!("'{name}' is none of: synchronous, adaptive, reactor, coroutine, auto");
        check("threads", Err(&none("threads")));
        check("", Err(&none("")));
        check("127.0.0.1=fast", Err(&none("fast")));
        check("=auto", Err("'=auto' names no address"));
        check("auto,reactor", Err("'reactor' would be a second model for all other addresses"));
        check("a=auto,a=reactor", Err("'a' is there twice"));
    }
}
