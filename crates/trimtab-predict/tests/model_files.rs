//! Models in files.

use std::fs;
use std::path::{Path, PathBuf};

use trimtab_io::Nanos;
use trimtab_predict::{
    CardError, FilesError, Identity, Label, LabelRule, Model, PredictorKind, Provenance,
    QueueTimes, Recorded, Trained, card_path, fingerprint,
};
use trimtab_train::{Event, TrainingOptions, TrainingSet, events, train};

#[path = "../../trimtab-train/tests/recording/mod.rs"]
mod recording;
use recording::recording;

/// The checksum of a card before it has one.
const BLANK: &str = "0000000000000000";

/// FNV-1a, 64 bits.
fn hash(parts: &[&[u8]]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = parts.iter().copied().flatten().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

fn model(kind: PredictorKind, recorded: &[Recorded]) -> Model {
    let label = Label::Threshold { latency: Nanos(400_000) };
    let set = TrainingSet::whole(recorded);
    let options = TrainingOptions { trees: 10, ..TrainingOptions::default() };
    let trained = train(kind, &[set], &label, &options, |_, _| {}).unwrap();
    let training = Provenance {
        trace: "here".into(),
        fingerprint: fingerprint(recorded),
        reads: recorded.len(),
        slow: 1,
        until: Nanos(5),
        inflection_percentile: Some(90.5),
        false_submit_rate: None,
        cost: None,
        seed: 1,
        fit: None,
    };
    Model::new(trained, LabelRule::Knee, label, training)
}

fn written(model: &Model) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.safetensors");
    let (tensors, card) = model.to_files().unwrap();
    fs::write(&path, tensors).unwrap();
    fs::write(card_path(&path), card).unwrap();
    (folder, path)
}

#[test]
fn model_of_a_queue_is_what_was_saved() {
    let times = QueueTimes {
        read_ns: 1,
        read_page_ns: 2,
        write_ns: 3,
        write_page_ns: 4,
        parallel: 5,
        deadline_ns: 6,
    };
    let card = model(PredictorKind::HeurSim, &recording()).card;
    let load = |times| {
        let (label, training) = (card.label.clone(), card.training.clone());
        let (_folder, path) =
            written(&Model::new(Trained::MittState(times), card.rule, label, training));
        Model::load(&path)
    };
    let again = load(times).unwrap();
    assert!(matches!(again.trained, Trained::MittState(same) if same == times));
    let wrong = load(QueueTimes { parallel: 0, ..times }).unwrap_err().to_string();
    assert!(wrong.contains("queue"), "{wrong}");
}

#[test]
fn loaded_model_decides_like_the_saved_one() {
    let recorded = recording();
    for kind in PredictorKind::ALL {
        let model = model(kind, &recorded);
        let (_folder, path) = written(&model);
        let loaded = Model::load(&path).unwrap();
        assert_eq!(loaded.card.training, model.card.training);
        let (mut a, mut b) = (model.trained.predictor(), loaded.trained.predictor());
        for event in events(&recorded[..500]) {
            // Tickets are equal, as both get the same calls.
            let Event::Sent(i) = event else { continue };
            let (request, now) = (&recorded[i].request, recorded[i].request.arrival);
            assert_eq!(a.predict(now, request), b.predict(now, request));
            let ticket = a.sent(now, request);
            assert_eq!(ticket, b.sent(now, request));
            if i % 3 > 0 {
                a.completed(now + Nanos(90_000), ticket, true);
                b.completed(now + Nanos(90_000), ticket, true);
            }
        }
    }
}

/// Older cards name no drive, and a model may be meant for any.
#[test]
fn card_may_name_its_drive() {
    let mut model = model(PredictorKind::HeurSim, &recording());
    let here = Identity { bytes: Some(4096), serial: Some("S1".into()), ..Identity::default() };
    let there = Identity { serial: Some("S2".into()), ..here.clone() };
    let (_folder, path) = written(&model);
    assert!(!fs::read_to_string(card_path(&path)).unwrap().contains("drive"));
    let loaded = Model::load(&path).unwrap();
    assert_eq!((&loaded.card.drive, loaded.other_drive(&there)), (&None, None));

    model.card.drive = Some(here.clone());
    let (_folder, path) = written(&model);
    let loaded = Model::load(&path).unwrap();
    assert_eq!(loaded.card.drive.as_ref(), Some(&here));
    assert_eq!(loaded.other_drive(&here), None);
    assert!(loaded.other_drive(&there).unwrap().to_string().contains("S2"));
    let card = fs::read_to_string(card_path(&path)).unwrap();
    let other = resealed(&card.replacen("\"serial\"", "\"colour\"", 1), &fs::read(&path).unwrap());
    fs::write(card_path(&path), other).unwrap();
    let error = Model::load(&path).unwrap_err().to_string();
    assert!(error.contains("unknown field `colour`"), "{error}");
}

/// A changed card with the checksum that belongs to it.
fn resealed(card: &str, tensors: &[u8]) -> String {
    let end = "\"\n}\n";
    let covered = &card[..card.len() - BLANK.len() - end.len()];
    let length = (tensors.len() as u64).to_le_bytes();
    format!("{covered}{}{end}", hash(&[&length, tensors, covered.as_bytes()]))
}

/// A card as versions before the fourth wrote it.
fn of_version(version: u32, tensors: &[u8], card: &str) -> String {
    let mut card: serde_json::Value = serde_json::from_str(card).unwrap();
    card["version"] = version.into();
    card["checksum"] = hash(&[tensors]).into();
    serde_json::to_string_pretty(&card).unwrap() + "\n"
}

#[test]
fn malformed_models_are_refused_with_a_reason() {
    let model = model(PredictorKind::Trimtab, &recording());
    let (_folder, path) = written(&model);
    let card = fs::read_to_string(card_path(&path)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let reason = |from: &str, to: &str| {
        let card = resealed(&card.replacen(from, to, 1), &bytes);
        fs::write(card_path(&path), card).unwrap();
        Model::load(&path).unwrap_err().to_string()
    };
    let old = reason("\"version\": 5", "\"version\": 0");
    assert!(old.ends_with("model of version 0, expected 1 to 5; train it again"), "{old}");
    assert!(reason("\"version\": 5", "\"v\": 5").contains("version none"));
    assert!(reason("\"predictor\"", "\"prophet\"").contains("unknown field `prophet`"));
    let narrow = reason("\"features\": ", "\"features\": 1");
    assert!(narrow.ends_with("there are; train it again"), "{narrow}");
    let units = reason("\"shift\": 1", "\"shift\": 9991");
    assert!(units.contains("invalid unit function"), "{units}");
    let late = reason("\"late\": ", "\"late\": 999999999999");
    assert!(late.contains("take longer than a day"), "{late}");
    fs::write(card_path(&path), &card).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(Model::load(&path).unwrap_err().to_string().contains("is not the model that"));
}

/// A flipped bit in a card can turn a threshold of -3092 into -7092.
#[test]
fn flipped_bits_are_refused() {
    let recorded = recording();
    for kind in PredictorKind::ALL {
        let (tensors, card) = model(kind, &recorded).to_files().unwrap();
        assert!(Model::from_files(&tensors, &card).is_ok());
        for bit in 0..card.len() * 8 {
            let mut flipped = card.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A card that is not text is refused earlier.
            let Ok(flipped) = String::from_utf8(flipped) else { continue };
            let accepted = Model::from_files(&tensors, &flipped).is_ok();
            assert!(!accepted, "{kind:?}: bit {bit} of the card:\n{flipped}");
        }
        // A large sample of the tensors' bits, spread over all bytes' places.
        let mut flipped = tensors.clone();
        for bit in (0..tensors.len() * 8).step_by((tensors.len() / 1_000).max(1) * 8 + 3) {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Model::from_files(&flipped, &card).is_err(), "{kind:?}: bit {bit} of tensors");
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        // Nor is a card that is cut off or continued.
        for other in [format!("{card} "), card.trim_end().to_owned(), card.replace('\n', "\r\n")] {
            assert!(Model::from_files(&tensors, &other).is_err(), "{kind:?}: {other:?}");
        }
    }
}

#[test]
fn older_versions_are_loaded_with_a_caution() {
    let recorded = recording();
    for kind in PredictorKind::ALL {
        let new = model(kind, &recorded);
        assert_eq!(new.caution(), None);
        let (tensors, card) = new.to_files().unwrap();
        for version in 1..=3 {
            let old = of_version(version, &tensors, &card);
            let loaded = Model::from_files(&tensors, &old);
            if kind == PredictorKind::Trimtab && version < 3 {
                let Err(FilesError::Card(why @ CardError::OldFeatures { .. })) = loaded else {
                    panic!("version {version} was loaded")
                };
                let why = why.to_string();
                assert!(why.contains("meant something else then; train it again"), "{why}");
                continue;
            }
            let Ok(loaded) = loaded else { panic!("{kind:?} of version {version} was not loaded") };
            let caution = loaded.caution().unwrap();
            assert!(caution.starts_with(&format!("its card is of version {version}, ")));
            // Saved again, it is of this version.
            assert_eq!(loaded.to_files().unwrap(), (tensors.clone(), card.clone()));
            let mut damaged = tensors.clone();
            *damaged.last_mut().unwrap() ^= 1;
            assert!(matches!(Model::from_files(&damaged, &old), Err(FilesError::Checksum)));
        }
    }
}

#[test]
fn oversized_files_are_refused() {
    let (folder, path) = written(&model(PredictorKind::HeurSim, &recording()));
    let zero = folder.path().join("zero");
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    let reason = |path: &Path| Model::load(path).unwrap_err().to_string();
    assert!(reason(&zero).ends_with("larger than 64 MiB: is this a model?"));
    fs::remove_file(card_path(&path)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", card_path(&path)).unwrap();
    assert!(reason(&path).contains("larger than 1 MiB: is this a model's card?"));
}
