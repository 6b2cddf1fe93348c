//! Models survive a round trip through a file, and invalid files are errors.

use proptest::prelude::*;
use trimtab_learn::calibrate::{Platt, Table};
use trimtab_learn::dense::{Activation, Initialisation, Network, Shape};
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::integer::LinnOs;
use trimtab_learn::standardise::Standardiser;
use trimtab_learn::store::{Reader, Writer};
use trimtab_learn::{Error, Simd, integer, lightgbm, tree};

fn linnos() -> Network {
    let layers = [(256, Activation::Relu), (2, Activation::Linear)];
    Network::random(31, &layers, Initialisation::Glorot, 1).unwrap()
}

/// A file with one model of each kind.
fn file() -> Vec<u8> {
    let forest = lightgbm::read(include_str!("../golden/lightgbm.txt")).unwrap().forest;
    let mut writer = Writer::default();
    writer.put("dense", &linnos());
    writer.put("integer", &LinnOs::quantise(&linnos()).unwrap());
    writer.put("integer_forest", &IntegerForest::new(&forest, 16).unwrap());
    writer.put("forest", &forest);
    writer.put("scale", &Standardiser::new([1.0].into(), [2.0].into()).unwrap());
    writer.put("table", &Table::new([1, 5].into(), [0, 3, 9].into()).unwrap());
    writer.put("platt", &Platt { slope: 0.5, offset: -1.0 });
    writer.to_bytes().unwrap()
}

/// The golden file has a small model of each kind. Every later version must read it;
/// `TRIMTAB_WRITE_GOLDEN=1` rewrites it.
#[test]
fn golden_file_is_stable() {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/models.safetensors");
    let layers = [(16, Activation::Relu), (2, Activation::Softmax)];
    let dense = Network::random(3, &layers, Initialisation::He, 2).unwrap();
    let forest = lightgbm::read(include_str!("../golden/lightgbm.txt")).unwrap().forest;
    let mut writer = Writer::default();
    writer.put("dense", &dense);
    writer.put("integer", &integer::Network::<3, 2, 16>::quantise(&dense).unwrap());
    writer.put("integer_forest", &IntegerForest::new(&forest, 16).unwrap());
    writer.put("forest", &forest);
    writer.put("scale", &Standardiser::new([1.0].into(), [2.0].into()).unwrap());
    writer.put("table", &Table::new([1, 5].into(), [0, 3, 9].into()).unwrap());
    writer.put("platt", &Platt { slope: 0.5, offset: -1.0 });
    let bytes = writer.to_bytes().unwrap();
    if std::env::var_os("TRIMTAB_WRITE_GOLDEN").is_some() {
        std::fs::write(PATH, &bytes).unwrap();
    }
    assert!(std::fs::read(PATH).unwrap() == bytes, "the file is another one");
}

#[test]
fn every_model_round_trips() {
    let bytes = file();
    assert_eq!(bytes, file(), "the same models give the same bytes");
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.get::<Network>("dense").unwrap(), linnos());
    let integer = reader.get::<Box<LinnOs>>("integer").unwrap();
    assert_eq!(integer, LinnOs::quantise(&linnos()).unwrap());
    let forest = reader.get::<tree::Forest>("forest").unwrap();
    assert_eq!(forest, lightgbm::read(include_str!("../golden/lightgbm.txt")).unwrap().forest);
    let integer_forest = reader.get::<IntegerForest>("integer_forest").unwrap();
    let sample = [50; 10];
    for simd in Simd::all() {
        let expected = IntegerForest::new(&forest, 16).unwrap().score(&sample);
        assert_eq!(integer_forest.score_with(simd, &sample), expected);
    }
    assert_eq!(reader.get::<Standardiser>("scale").unwrap().deviation(), [2.0]);
    assert_eq!(reader.get::<Table>("table").unwrap().value(4), 3);
    assert_eq!(reader.get::<Platt>("platt").unwrap(), Platt { slope: 0.5, offset: -1.0 });
}

#[test]
fn invalid_models_are_errors() {
    let bytes = file();
    let reader = Reader::new(&bytes).unwrap();
    let message = |error: Error| error.to_string();
    assert_eq!(
        message(reader.get::<Network>("nobody").unwrap_err()),
        "tensor \"nobody.activation\": is missing"
    );
    assert_eq!(
        message(reader.get::<Table>("platt").unwrap_err()),
        "tensor \"platt.start\": is missing"
    );
    assert_eq!(
        message(reader.get::<Box<LinnOs>>("dense").unwrap_err()),
        "tensor \"dense.first.weight\": is missing"
    );
    assert_eq!(
        message(reader.get::<IntegerForest>("forest").unwrap_err()),
        "tensor \"forest.threshold\": has numbers of type F64, not I32"
    );
    let message = Reader::new(b"nonsense").unwrap_err().to_string();
    assert!(message.starts_with("is not a safetensors file: "), "{message}");
    let mut twice = Writer::default();
    twice.put("a", &Platt { slope: 0.5, offset: -1.0 });
    twice.put("a", &Platt { slope: 0.5, offset: -1.0 });
    assert!(twice.to_bytes().is_err());
}

#[test]
fn oversized_weight_error_names_it() {
    let shapes = [
        Shape { inputs: 31, outputs: 256, activation: Activation::Relu },
        Shape { inputs: 256, outputs: 2, activation: Activation::Linear },
    ];
    let quantise = |place: usize, value: f32| {
        let mut parameters = vec![0.001; 31 * 256 + 256 + 512 + 2];
        parameters[place] = value;
        LinnOs::quantise(&Network::new(&shapes, parameters.into()).unwrap())
    };
    assert_eq!(quantise(256 + 7, 32.767).unwrap().first_weight(1, 7), 32_767);
    assert_eq!(quantise(256 + 7, -0.0005).unwrap().first_weight(1, 7), -1);
    let error = Error::Saturated { layer: 0, neuron: 7, value: 32.768 };
    assert_eq!(quantise(256 + 7, 32.768).unwrap_err(), error);
    let error = Error::Saturated { layer: 1, neuron: 1, value: -33.0 };
    assert_eq!(quantise(32 * 256 + 3, -33.0).unwrap_err(), error);
    assert!(matches!(quantise(0, f32::NAN), Err(Error::Saturated { layer: 0, neuron: 0, .. })));
    assert!(matches!(quantise(31 * 256, 3e6), Err(Error::Saturated { .. })));
}

proptest! {
    #[test]
    fn damage_never_panics(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = file();
        for (at, byte) in changes {
            // The header is damaged as often as the numbers.
            let length = if at % 2 == 0 { bytes.len() } else { 3_000 };
            bytes[at / 2 % length] = byte;
        }
        let Ok(reader) = Reader::new(&bytes) else { return Ok(()) };
        let _ = reader.get::<Network>("dense");
        let _ = reader.get::<Box<LinnOs>>("integer");
        let _ = reader.get::<tree::Forest>("forest");
        let _ = reader.get::<Table>("table");
        if let Ok(forest) = reader.get::<IntegerForest>("integer_forest") {
            let sample = vec![7; forest.features().min(1_000)];
            if sample.len() == forest.features() {
                let expected = forest.score_with(Simd::SCALAR, &sample);
                prop_assert_eq!(forest.score(&sample), expected);
            }
        }
    }
}
