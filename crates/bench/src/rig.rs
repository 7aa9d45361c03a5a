//! What every measurement has around it: the way to end it and the cores it runs on.

use crate::affinity::Pin;
use crate::arguments::MeasureArguments;
use crate::error::BenchError;
use crate::generator::{Fleet, GroupSpec, Load, WorkerCommand};
use crate::interrupt::Interrupt;
use std::net::SocketAddr;

/// The surroundings of a measurement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rig {
    pub(crate) interrupt: Interrupt,
    pub(crate) pin: Pin,
}

impl Rig {
    /// Watches for Ctrl-C and moves this thread to the generator's cores.
    pub(crate) fn set_up(asked: &MeasureArguments) -> Result<Self, BenchError> {
        let rig = Rig { interrupt: Interrupt::watch()?, pin: asked.pin.clone().unwrap_or_default() };
        rig.pin.enter_generator()?;
        Ok(rig)
    }

    /// Opens the connections of these groups, for one repetition.
    pub(crate) fn fleet(
        &self,
        address: SocketAddr,
        groups: Vec<GroupSpec>,
        asked: &MeasureArguments,
        repetition: u32,
    ) -> Result<Fleet, BenchError> {
        let MeasureArguments { threads, processes, seed, .. } = *asked;
        let load = Load { address, groups, threads, processes, seed: seed.wrapping_add(repetition.into()) };
        Fleet::open(load, &WorkerCommand::default(), &self.interrupt)
    }
}
