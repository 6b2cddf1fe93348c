use trimtab_io::Nanos;

use super::*;
use crate::testing::recording;
use crate::{Lesson, Options, train};

fn model(kind: Kind, recorded: &[Recorded]) -> Model {
    let label = Label::Threshold { latency: Nanos(400_000) };
    let lesson = Lesson::whole(recorded);
    let options = Options { trees: 10, ..Options::default() };
    let trained = train(kind, &[lesson], &label, &options, |_, _| {}).unwrap();
    let training = Training {
        trace: "here".into(),
        fingerprint: fingerprint(recorded),
        reads: recorded.len(),
        slow: 1,
        until: Nanos(5),
        inflection_percentile: Some(90.5),
        false_submit_rate: None,
        seed: 1,
    };
    Model::new(trained, Rule::Knee, label, training)
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
fn what_was_written_decides_alike() {
    let recorded = recording();
    for kind in Kind::ALL {
        let model = model(kind, &recorded);
        let (_folder, path) = written(&model);
        let loaded = Model::load(&path).unwrap();
        assert_eq!(loaded.card.training, model.card.training);
        let (mut a, mut b) = (model.trained.predictor(), loaded.trained.predictor());
        for event in crate::events(&recorded[..500]) {
            // Tickets are the same, as both are told the same.
            let crate::Event::Sent(i) = event else { continue };
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

/// Cards had none before recordings noted it, and some are to fit any drive.
#[test]
fn a_card_may_say_of_which_drive_it_is() {
    let mut model = model(Kind::HeurSim, &recording());
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
    fs::write(card_path(&path), card.replacen("\"serial\"", "\"colour\"", 1)).unwrap();
    let error = Model::load(&path).unwrap_err().to_string();
    assert!(error.contains("unknown field `colour`"), "{error}");
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let model = model(Kind::Trimtab, &recording());
    let (_folder, path) = written(&model);
    let card = fs::read_to_string(card_path(&path)).unwrap();
    let reason = |card: &str| {
        fs::write(card_path(&path), card).unwrap();
        Model::load(&path).unwrap_err().to_string()
    };
    let old = card.replacen("\"version\": 3", "\"version\": 0", 1);
    assert!(reason(&old).ends_with("model of version 0, expected 3; train it again"));
    assert!(reason("{}").contains("version none"));
    let strange = card.replacen("\"predictor\"", "\"prophet\"", 1);
    assert!(reason(&strange).contains("unknown field `prophet`"));
    let narrow = card.replacen("\"features\": ", "\"features\": 1", 1);
    assert!(reason(&narrow).ends_with("there are; train it again"), "{}", reason(&narrow));
    let units = card.replacen("\"shift\": 1", "\"shift\": 9991", 1);
    assert!(reason(&units).contains("cannot be told apart"), "{}", reason(&units));
    let late = card.replacen("\"late\": ", "\"late\": 999999999999", 1);
    assert!(reason(&late).contains("take longer than a day"), "{}", reason(&late));
    fs::write(card_path(&path), &card).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(Model::load(&path).unwrap_err().to_string().contains("is not the model that"));
}
