//! Is a window open, and when does that change?
//!
//! While the offset of its time zone stays, a window changes only where the local clock passes midnight, its
//! `start` or its `stop`. So one goes from one of these to the next, and to each change of the offset.

use super::{
    DAY_MINUTES, MS_PER_DAY, MS_PER_MINUTE, OpenSpan, WindowState, WorkCalendar, WorkRate, WorkWindow,
};

/// What has not changed within so many days never does: weeks repeat themselves, but one may lack a day, or
/// the hour of the window.
const HORIZON_DAYS: i64 = 22;

impl WorkWindow {
    /// The local day, counted from 1970, and the milliseconds since its midnight.
    fn local(&self, moment_ms: i64) -> (i64, i64) {
        let offset = self.zone.offset_seconds(moment_ms).expect("clocks show years that calendars have");
        let local_ms = moment_ms + i64::from(offset) * 1000;
        (local_ms.div_euclid(MS_PER_DAY), local_ms.rem_euclid(MS_PER_DAY))
    }

    fn is_open(&self, moment_ms: i64) -> bool {
        let (day, time_ms) = self.local(moment_ms);
        let (start, stop) = (ms_of(self.start), ms_of(self.stop));
        if self.start < self.stop {
            return self.days.has(day) && (start..stop).contains(&time_ms);
        }
        time_ms >= start && self.days.has(day) || time_ms < stop && self.days.has(day - 1)
    }

    /// The next moment at which it may open or close.
    fn next_edge(&self, moment_ms: i64) -> i64 {
        let (_, time_ms) = self.local(moment_ms);
        let edges = [self.start, self.stop, DAY_MINUTES].map(ms_of).into_iter();
        let ahead = edges.filter(|edge| *edge > time_ms).min().unwrap_or(MS_PER_DAY);
        let edge = moment_ms + ahead - time_ms;
        self.zone.next_change(moment_ms).map_or(edge, |change| edge.min(change))
    }
}

const fn ms_of(minutes: u32) -> i64 {
    minutes as i64 * MS_PER_MINUTE
}

impl WorkCalendar {
    fn rate_at(&self, moment_ms: i64) -> Option<WorkRate> {
        let open = self.windows.iter().filter(|window| window.is_open(moment_ms));
        open.map(|window| window.rate).reduce(WorkRate::or)
    }

    fn next_edge(&self, moment_ms: i64) -> i64 {
        let edges = self.windows.iter().map(|window| window.next_edge(moment_ms));
        edges.min().expect("a calendar has windows")
    }

    /// Whether it is open at this moment, at which rate, and until when that stays.
    pub fn state_at(&self, moment_ms: i64) -> WindowState {
        let open = self.rate_at(moment_ms);
        let horizon = moment_ms + HORIZON_DAYS * MS_PER_DAY;
        let mut edge = moment_ms;
        while edge < horizon {
            edge = self.next_edge(edge);
            if self.rate_at(edge).is_some() != open.is_some() {
                return WindowState { open, until_ms: Some(edge) };
            }
        }
        WindowState { open, until_ms: None }
    }

    /// When it is open between two moments.
    pub fn spans(&self, from_ms: i64, to_ms: i64) -> Vec<OpenSpan> {
        let mut spans = Vec::new();
        let mut moment_ms = from_ms;
        while moment_ms < to_ms {
            let state = self.state_at(moment_ms);
            let until_ms = state.until_ms.unwrap_or(to_ms).min(to_ms);
            if state.open.is_some() {
                spans.push(OpenSpan { from_ms: moment_ms, to_ms: until_ms });
            }
            moment_ms = until_ms;
        }
        spans
    }
}
