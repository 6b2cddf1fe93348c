//! The arrays of each model.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Section, Stored, Tensors};
use crate::Error;
#[cfg(feature = "train")]
use crate::calibrate::Platt;
use crate::calibrate::Table;
use crate::dense::{self, Activation, Shape};
use crate::forest::{IntegerForest, Node, Root};
use crate::integer;
use crate::standardise::Standardiser;
use crate::tree::{Child, Forest, Missing, Split, Tree};

/// `activation`: one number per layer, see [`Activation`]. `0.weight` (inputs × outputs) and
/// `0.bias`, `1.weight` and so on.
impl Stored for dense::Network {
    fn store(&self, to: &mut Section<'_>) {
        let activations: Vec<u8> = self.shapes().iter().map(|s| s.activation as u8).collect();
        to.put("activation", &[activations.len()], &activations);
        for (number, layer) in self.layers().enumerate() {
            let shape = [layer.inputs(), layer.outputs()];
            to.put(&alloc::format!("{number}.weight"), &shape, layer.weights());
            to.put(&alloc::format!("{number}.bias"), &shape[1..], layer.bias());
        }
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        let (mut shapes, mut parameters) = (Vec::new(), Vec::new());
        for (number, &code) in from.list::<u8>("activation")?.iter().enumerate() {
            let Some(&activation) = Activation::ALL.get(usize::from(code)) else {
                return from.wrong("activation", "has a number that stands for none");
            };
            let ([inputs, outputs], weights) =
                from.get::<f32, 2>(&alloc::format!("{number}.weight"))?;
            parameters.extend(weights);
            parameters.extend(from.list::<f32>(&alloc::format!("{number}.bias"))?);
            shapes.push(Shape { inputs, outputs, activation });
        }
        Self::new(&shapes, parameters.into())
    }
}

/// `first.weight` (inputs × hidden), `first.bias`, `second.weight` (hidden × 2),
/// `second.bias`.
impl<const INPUTS: usize, const PAIRS: usize, const HIDDEN: usize> Stored
    for Box<integer::Network<INPUTS, PAIRS, HIDDEN>>
{
    fn store(&self, to: &mut Section<'_>) {
        let first: Vec<i16> =
            (0..INPUTS * HIDDEN).map(|i| self.first_weight(i / HIDDEN, i % HIDDEN)).collect();
        let second: Vec<i16> = (0..HIDDEN * 2).map(|i| self.second_weight(i / 2, i % 2)).collect();
        to.put("first.weight", &[INPUTS, HIDDEN], &first);
        to.put("first.bias", &[HIDDEN], self.first_bias());
        to.put("second.weight", &[HIDDEN, 2], &second);
        to.put("second.bias", &[2], &self.second_bias());
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        let (first_shape, first) = from.get::<i16, 2>("first.weight")?;
        let (second_shape, second) = from.get::<i16, 2>("second.weight")?;
        if first_shape != [INPUTS, HIDDEN] || second_shape != [HIDDEN, 2] {
            return from.wrong("first.weight", "or second.weight is of another network's size");
        }
        let Ok(second_bias) = from.list::<i64>("second.bias")?.try_into() else {
            return from.wrong("second.bias", "has not two values");
        };
        let first_bias = from.list::<i32>("first.bias")?;
        integer::Network::new(&first, &first_bias, &second, second_bias).map(Self::new)
    }
}

/// `features`, `base`, `leaves` (of each tree), and then of all trees concatenated: `value` of each
/// leaf; `feature`, `threshold`, `missing`, `default_left` and `child` (splits × 2; leaf n is −1 −
/// n) of each split.
impl Stored for Forest {
    fn store(&self, to: &mut Section<'_>) {
        let splits = || self.trees().iter().flat_map(Tree::splits);
        let count = splits().count();
        let leaves: Vec<u32> = self.trees().iter().map(|t| t.leaves().len() as u32).collect();
        let values: Vec<f64> = self.trees().iter().flat_map(Tree::leaves).copied().collect();
        let feature: Vec<u32> = splits().map(|s| s.feature as u32).collect();
        let threshold: Vec<f64> = splits().map(|s| s.threshold).collect();
        let missing: Vec<u8> = splits().map(|s| s.missing as u8).collect();
        let default_left: Vec<u8> = splits().map(|s| u8::from(s.default_left)).collect();
        let child: Vec<i32> = splits()
            .flat_map(|s| [s.left, s.right])
            .map(|child| match child {
                Child::Split(split) => split as i32,
                Child::Leaf(leaf) => !(leaf as i32),
            })
            .collect();
        to.put("features", &[1], &[self.features() as u32]);
        to.put("base", &[1], &[self.base()]);
        to.put("leaves", &[leaves.len()], &leaves);
        to.put("value", &[values.len()], &values);
        to.put("feature", &[count], &feature);
        to.put("threshold", &[count], &threshold);
        to.put("missing", &[count], &missing);
        to.put("default_left", &[count], &default_left);
        to.put("child", &[count, 2], &child);
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        let missing = from.list::<u8>("missing")?;
        let default_left = from.list::<u8>("default_left")?;
        let threshold = from.list::<f64>("threshold")?;
        let feature = from.list::<u32>("feature")?;
        let ([_, two], child) = from.get::<i32, 2>("child")?;
        let count = feature.len();
        if two != 2
            || [missing.len(), default_left.len(), threshold.len(), child.len() / 2] != [count; 4]
        {
            return from.wrong("child", "or another array of the splits has another length");
        }
        let child_of = |number: i32| match usize::try_from(number) {
            Ok(split) => Child::Split(split),
            Err(_) => Child::Leaf(!number as usize),
        };
        let mut splits = Vec::with_capacity(count);
        for i in 0..count {
            splits.push(Split {
                feature: feature[i] as usize,
                threshold: threshold[i],
                missing: match missing[i] {
                    0 => Missing::Nothing,
                    1 => Missing::Zero,
                    2 => Missing::Nan,
                    _ => return from.wrong("missing", "has a number that stands for nothing"),
                },
                default_left: default_left[i] != 0,
                left: child_of(child[2 * i]),
                right: child_of(child[2 * i + 1]),
            });
        }
        let values = from.list::<f64>("value")?;
        let (mut splits, mut values) = (&splits[..], &values[..]);
        let mut trees = Vec::new();
        for leaves in from.list::<u32>("leaves")? {
            let leaves = leaves as usize;
            if leaves == 0 || leaves > values.len() || leaves - 1 > splits.len() {
                return from.wrong("leaves", "are more than there are");
            }
            let (of_tree, behind) = values.split_at(leaves);
            let (splits_of_tree, splits_behind) = splits.split_at(leaves - 1);
            (values, splits) = (behind, splits_behind);
            let number = trees.len();
            trees.push(Tree::new(splits_of_tree.into(), of_tree.into()).map_err(
                |error| match error {
                    Error::Tree { node, what, .. } => Error::Tree { tree: number, node, what },
                    other => other,
                },
            )?);
        }
        if !values.is_empty() || !splits.is_empty() {
            return from.wrong("leaves", "are fewer than there are");
        }
        Self::new(from.one::<u32>("features")? as usize, from.one("base")?, trees)
    }
}

/// `features`, `base`, `fraction_bits`; `threshold`, `feature`, `skip` and `value`
/// of each node; `first` and `depth` of each tree.
impl Stored for IntegerForest {
    fn store(&self, to: &mut Section<'_>) {
        let view = self.view();
        let nodes = view.nodes();
        let threshold: Vec<i32> = nodes.iter().map(|node| node.threshold).collect();
        let feature: Vec<u16> = nodes.iter().map(|node| node.feature).collect();
        let skip: Vec<u16> = nodes.iter().map(|node| node.skip).collect();
        let first: Vec<u32> = view.roots().iter().map(|root| root.first).collect();
        let depth: Vec<u32> = view.roots().iter().map(|root| root.depth).collect();
        to.put("features", &[1], &[self.features() as u32]);
        to.put("base", &[1], &[view.base()]);
        to.put("fraction_bits", &[1], &[self.fraction_bits()]);
        to.put("threshold", &[nodes.len()], &threshold);
        to.put("feature", &[nodes.len()], &feature);
        to.put("skip", &[nodes.len()], &skip);
        to.put("value", &[nodes.len()], view.values());
        to.put("first", &[first.len()], &first);
        to.put("depth", &[depth.len()], &depth);
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        let (threshold, feature) = (from.list::<i32>("threshold")?, from.list::<u16>("feature")?);
        let (skip, value) = (from.list::<u16>("skip")?, from.list::<i32>("value")?);
        if [feature.len(), skip.len(), value.len()] != [threshold.len(); 3] {
            return from.wrong("threshold", "or another array of the nodes has another length");
        }
        let (first, depth) = (from.list::<u32>("first")?, from.list::<u32>("depth")?);
        if first.len() != depth.len() {
            return from.wrong("depth", "has another length than that of the trees");
        }
        let node = |i: usize| Node { threshold: threshold[i], feature: feature[i], skip: skip[i] };
        let roots = first.iter().zip(&depth).map(|(&first, &depth)| Root { first, depth });
        Self::from_parts(
            from.one::<u32>("features")? as usize,
            from.one("base")?,
            from.one("fraction_bits")?,
            (0..threshold.len()).map(node).collect(),
            value.into(),
            roots.collect(),
        )
    }
}

/// `mean` and `deviation` of each feature.
impl Stored for Standardiser {
    fn store(&self, to: &mut Section<'_>) {
        to.put("mean", &[self.mean().len()], self.mean());
        to.put("deviation", &[self.deviation().len()], self.deviation());
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        Self::new(from.list("mean")?.into(), from.list("deviation")?.into())
    }
}

/// `start` of each step except the first, and `value` of each step.
impl Stored for Table {
    fn store(&self, to: &mut Section<'_>) {
        to.put("start", &[self.starts().len()], self.starts());
        to.put("value", &[self.values().len()], self.values());
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        Self::new(from.list("start")?.into(), from.list("value")?.into())
    }
}

/// `slope` and `offset`.
#[cfg(feature = "train")]
impl Stored for Platt {
    fn store(&self, to: &mut Section<'_>) {
        to.put("slope", &[1], &[self.slope]);
        to.put("offset", &[1], &[self.offset]);
    }

    fn load(from: &Tensors<'_>) -> Result<Self, Error> {
        Ok(Self { slope: from.one("slope")?, offset: from.one("offset")? })
    }
}
