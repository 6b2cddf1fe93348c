//! Faults as they are written in TOML, and sent as JSON.

use serde::{Deserialize, Serialize};

use super::{Effect, Fault, FaultOps, SecondsRange, Slowdowns};

/// Bytes of a `media` without `bytes`.
const SECTOR: u64 = 512;
const MEDIA_TAKES: &str =
    "`media` takes `offset`, `bytes` and `at_s`; it lasts until that is written";

/// A fault as written: flat, so that a superfluous key is an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultEntry {
    kind: FaultKind,
    #[serde(default)]
    at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_s: Option<SecondsRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_s: Option<SecondsRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factors: Option<Vec<(f64, f64)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redraw_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ops: Option<FaultOps>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FaultKind {
    Stall,
    Slow,
    Error,
    Media,
    PowerCut,
}

impl FaultEntry {
    /// The effect; keys that do not belong to the kind are an error.
    fn effect(&self) -> Result<Effect, String> {
        let Self { factor, share, ops, seed, .. } = *self;
        let drawn = self.factors.as_deref();
        let redraw_s = self.redraw_s;
        let of_media = self.offset.is_some() || self.bytes.is_some();
        if of_media || matches!(self.kind, FaultKind::Media) {
            return self.media();
        }
        Ok(match (self.kind, factor, drawn, redraw_s, share, ops, seed) {
            (FaultKind::Stall, None, None, None, None, None, None) => Effect::Stall,
            (FaultKind::Slow, Some(factor), None, None, None, None, None) => {
                Effect::Slow { factor }
            }
            (FaultKind::Slow, None, Some(points), redraw_s, None, None, None) => {
                let slowdowns = Slowdowns::new(points).map_err(|error| error.to_string())?;
                Effect::SlowAtRandom { slowdowns, redraw_s: redraw_s.unwrap_or(0.0) }
            }
            (FaultKind::Error, None, None, None, Some(share), ops, None) => {
                Effect::Error { ops: ops.unwrap_or_default(), share }
            }
            (FaultKind::PowerCut, None, None, None, None, None, seed) => {
                if self.every_s.is_some() {
                    return Err("a `power-cut` does not recur: it takes no `every_s`".to_owned());
                }
                Effect::PowerCut { seed }
            }
            (kind, ..) => {
                let takes = match kind {
                    FaultKind::Stall => "a stall takes only `at_s`, `for_s` and `every_s`",
                    FaultKind::Slow => {
                        "`slow` takes `factor`, or `factors` and `redraw_s`; `at_s`, `for_s` and \
                         `every_s`"
                    }
                    FaultKind::Error => {
                        "`error` takes `share`, `ops`, `at_s`, `for_s` and `every_s`"
                    }
                    FaultKind::PowerCut => "`power-cut` takes `at_s`, `for_s` and `seed`",
                    FaultKind::Media => MEDIA_TAKES,
                };
                return Err(takes.to_owned());
            }
        })
    }

    fn media(&self) -> Result<Effect, String> {
        let Self { kind, for_s, every_s, factor, redraw_s, share, ops, seed, .. } = self;
        let lasting = for_s.is_some() || every_s.is_some();
        let of_others = factor.is_some() || self.factors.is_some() || redraw_s.is_some();
        let of_others = of_others || share.is_some() || ops.is_some() || seed.is_some();
        match (kind, self.offset, self.bytes) {
            (FaultKind::Media, Some(offset), bytes) if !lasting && !of_others => {
                Ok(Effect::Media { offset, bytes: bytes.unwrap_or(SECTOR) })
            }
            (FaultKind::Media, ..) => Err(MEDIA_TAKES.to_owned()),
            _ => Err("`offset` and `bytes` are keys of `media`".to_owned()),
        }
    }
}

impl TryFrom<FaultEntry> for Fault {
    type Error = String;

    fn try_from(written: FaultEntry) -> Result<Self, String> {
        let effect = written.effect()?;
        let FaultEntry { at_s, for_s, every_s, .. } = written;
        let for_s = match (for_s, effect) {
            (Some(for_s), _) => for_s,
            (None, Effect::Stall) => return Err("missing field `for_s`".to_owned()),
            (None, _) if every_s.is_some() => {
                return Err("missing field `for_s`: a fault with `every_s` ends".to_owned());
            }
            (None, _) => f64::INFINITY.into(),
        };
        Ok(Self { effect, at_s, for_s, every_s })
    }
}

impl From<Fault> for FaultEntry {
    fn from(fault: Fault) -> Self {
        let Fault { effect, at_s, for_s, every_s } = fault;
        let plain = Self {
            kind: FaultKind::Stall,
            at_s,
            // JSON has no infinity.
            for_s: for_s.most.is_finite().then_some(for_s),
            every_s,
            factor: None,
            factors: None,
            redraw_s: None,
            share: None,
            ops: None,
            seed: None,
            offset: None,
            bytes: None,
        };
        match effect {
            Effect::Stall => plain,
            Effect::PowerCut { seed } => Self { kind: FaultKind::PowerCut, seed, ..plain },
            Effect::Slow { factor } => {
                Self { kind: FaultKind::Slow, factor: Some(factor), ..plain }
            }
            Effect::SlowAtRandom { slowdowns, redraw_s } => Self {
                kind: FaultKind::Slow,
                factors: Some(slowdowns.points().to_vec()),
                redraw_s: (redraw_s > 0.0).then_some(redraw_s),
                ..plain
            },
            Effect::Media { offset, bytes } => {
                Self { kind: FaultKind::Media, offset: Some(offset), bytes: Some(bytes), ..plain }
            }
            Effect::Error { ops, share } => {
                Self { kind: FaultKind::Error, share: Some(share), ops: Some(ops), ..plain }
            }
        }
    }
}
