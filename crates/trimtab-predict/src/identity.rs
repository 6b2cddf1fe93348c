//! The identity of a drive, as recordings and models note it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The properties that identify a drive, as far as they are known. A recording notes them for
/// each drive, a model's card those of the drive that it was trained on; before a model is
/// used they are compared with those of the actual drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Its capacity, bytes: the only property of emulated drives and RAM disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The vendor's name of the product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Its world-wide identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwid: Option<String>,
}

/// How a drive differs from the one that a model was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherDrive {
    what: &'static str,
    trained: String,
    found: String,
}

impl fmt::Display for OtherDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, trained, found } = self;
        write!(f, "the model was trained on a drive of {what} {trained}, this one's is {found}")
    }
}

impl Identity {
    /// Reads a recording's note.
    ///
    /// # Errors
    /// The text is not the JSON of an identity.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The note for a recording: JSON on one line. `None` if nothing is known.
    #[must_use]
    pub fn to_note(&self) -> Option<String> {
        let is_known = *self != Self::default();
        is_known.then(|| serde_json::to_string(self).expect("an identity is JSON"))
    }

    /// The key of the note about the drive of this name.
    #[must_use]
    pub fn note_key(device: &str) -> String {
        format!("drive.{device}")
    }

    /// How `found` differs from this drive, on which a model was trained. A property that is
    /// not known of both is not compared; with none to compare the drives count as the same.
    #[must_use]
    pub fn other_drive(&self, found: &Self) -> Option<OtherDrive> {
        let named = |what, trained: &Option<String>, found: &Option<String>| {
            let (trained, found) = (trained.as_ref()?, found.as_ref()?);
            let quoted = |name: &str| format!("{name:?}");
            let other = OtherDrive { what, trained: quoted(trained), found: quoted(found) };
            (trained != found).then_some(other)
        };
        let bytes = || {
            let (trained, found) = (self.bytes?, found.bytes?);
            let [a, b] = [trained, found].map(|bytes| format!("{bytes} bytes"));
            let other = OtherDrive { what: "capacity", trained: a, found: b };
            (trained != found).then_some(other)
        };
        named("WWID", &self.wwid, &found.wwid)
            .or_else(|| named("serial number", &self.serial, &found.serial))
            .or_else(|| named("type", &self.product, &found.product))
            .or_else(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Identity {
        Identity {
            bytes: Some(512_110_190_592),
            product: Some("Fast 970".into()),
            serial: Some("S4 \"1\"".into()),
            wwid: Some("eui.0025385b".into()),
        }
    }

    #[test]
    fn known_differences_are_reported_and_unknown_ones_ignored() {
        let (trained, none) = (whole(), Identity::default());
        assert_eq!(trained.other_drive(&trained), None);
        assert_eq!(trained.other_drive(&none), None);
        assert_eq!(none.other_drive(&trained), None);
        let capacity = |bytes| Identity { bytes: Some(bytes), ..Identity::default() };
        assert_eq!(trained.other_drive(&capacity(512_110_190_592)), None);
        let said = |found: &Identity| trained.other_drive(found).unwrap().to_string();
        assert_eq!(
            said(&capacity(4096)),
            "the model was trained on a drive of capacity 512110190592 bytes, this one's is 4096 \
             bytes"
        );
        let serial = said(&Identity { serial: Some("S5".into()), ..trained.clone() });
        assert!(serial.contains(r#"serial number "S4 \"1\"", this one's is "S5""#), "{serial}");
        let product = said(&Identity { product: Some("Slow".into()), ..trained.clone() });
        assert!(product.contains("of type"), "{product}");
        let wwid = said(&Identity { wwid: Some("eui.1".into()), ..capacity(1) });
        assert!(wwid.contains("of WWID"), "{wwid}");
    }

    #[test]
    fn note_round_trips_and_other_text_is_refused() {
        assert_eq!(Identity::default().to_note(), None);
        let note = whole().to_note().unwrap();
        assert!(!note.contains('\n'));
        assert_eq!(Identity::parse(&note).unwrap(), whole());
        let capacity = Identity { bytes: Some(4096), ..Identity::default() };
        assert_eq!(capacity.to_note().unwrap(), r#"{"bytes":4096}"#);
        for wrong in ["", "4096", r#"{"bytes":-1}"#, r#"{"sectors":8}"#, r#"{"serial":7}"#] {
            assert!(Identity::parse(wrong).is_err(), "{wrong}");
        }
    }
}
