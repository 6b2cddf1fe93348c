//! The devices of an array: by their place in the layout, and behind these spares and replacements.

use std::path::Path;
use std::sync::Arc;

use crate::figures::OfMember;
use crate::member::MemberDevice;

/// A device, and what it is to the array.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) device: Option<Arc<MemberDevice>>,
    pub(crate) state: SlotState,
    /// Where data begin on the device.
    pub(crate) data_offset: u64,
    /// Why it failed.
    pub(crate) why: Option<String>,
    /// Requests in flight.
    pub(crate) in_flight: u32,
    pub(crate) counted: OfMember,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SlotState {
    #[default]
    Missing,
    Active,
    Rebuilding,
    Failed,
    /// It is being filled, to take the place of a member that is active.
    Replacing,
    /// It waits until a member fails.
    Spare,
    /// It was replaced, and is let go of when its requests are complete.
    Leaving,
}

impl SlotState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Active => "active",
            Self::Rebuilding => "rebuilding",
            Self::Failed => "failed",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
            Self::Leaving => "leaving",
        }
    }

    /// Whether metadata are written to the device.
    pub(crate) const fn is_used(self) -> bool {
        matches!(self, Self::Active | Self::Rebuilding | Self::Replacing | Self::Spare)
    }
}

impl Slot {
    pub(crate) fn new(device: MemberDevice, state: SlotState, data_offset: u64) -> Self {
        Self { device: Some(Arc::new(device)), state, data_offset, ..Self::default() }
    }

    pub(crate) fn has(&self, device: &Arc<MemberDevice>) -> bool {
        self.device.as_ref().is_some_and(|own| Arc::ptr_eq(own, device))
    }

    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.device.as_ref().is_some_and(|device| device.path == path)
    }
}
