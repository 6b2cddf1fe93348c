//! B-WF2Q+: who is served next, by weight.
//!
//! Each entity (a queue, or a group) has a budget of sectors and a weight. Its virtual start and
//! finish are a budget apart, divided by the weight; virtual time advances by the service given,
//! divided by the sum of weights. Of the entities whose start has come, the one with the earliest
//! finish is served. This bounds the lag of any entity behind its share by about one budget
//! (Valente and Checconi, "High throughput disk scheduling with fair bandwidth distribution").

use trimtab_io::{IoClass, Nanos};

/// Entities that share a parent.
#[derive(Clone, Debug, Default)]
pub(super) struct Wf2q {
    entities: Vec<Entity>,
    /// Places of entities that were released.
    free: Vec<usize>,
    /// Those that wait for service.
    active: Vec<usize>,
    /// Those that need none, but whose finish lies ahead: their weight still counts.
    lingering: Vec<usize>,
    trees: [ServiceTree; 3],
    in_service: Option<usize>,
    /// When the idle class last got its chance.
    idle_class_served: Nanos,
    insertions: u64,
}

/// Virtual time of one class.
#[derive(Clone, Copy, Debug, Default)]
struct ServiceTree {
    time: u64,
    weights: u64,
}

/// A queue or a group.
#[derive(Clone, Debug)]
pub(super) struct Entity {
    start: u64,
    finish: u64,
    pub(super) weight: u32,
    class: usize,
    /// Sectors.
    pub(super) budget: u64,
    /// Sectors of the budget that were used.
    pub(super) service: u64,
    state: State,
    /// Orders entities with the same finish.
    sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    Lingering,
    Active,
    InService,
}

/// A class that is idle waits this long at most for the others.
const IDLE_CLASS_WAITS: Nanos = Nanos::from_millis(200);
/// Bits of virtual time below one sector of weight one.
const SHIFT: u32 = 22;

/// Virtual time of service.
const fn delta(service: u64, weight: u64) -> u64 {
    (service << SHIFT) / if weight == 0 { 1 } else { weight }
}

const fn tree_of(class: IoClass) -> usize {
    class as usize - 1
}

impl Wf2q {
    /// Adds an entity that needs no service yet.
    pub(super) fn add(&mut self, class: IoClass, weight: u32) -> usize {
        let entity = Entity {
            start: 0,
            finish: 0,
            weight,
            class: tree_of(class),
            budget: 0,
            service: 0,
            state: State::Out,
            sequence: 0,
        };
        if let Some(id) = self.free.pop() {
            self.entities[id] = entity;
            return id;
        }
        self.entities.push(entity);
        self.entities.len() - 1
    }

    /// An entity that needs no service will never need it again. Its place is reused, and its
    /// weight no longer counts.
    pub(super) fn release(&mut self, id: usize) {
        let entity = &mut self.entities[id];
        if entity.state == State::Lingering {
            entity.state = State::Out;
            self.trees[entity.class].weights -= u64::from(entity.weight);
            self.lingering.retain(|&other| other != id);
        }
        debug_assert_eq!(self.entities[id].state, State::Out, "a busy queue is not freed");
        self.free.push(id);
    }

    pub(super) fn get(&self, id: usize) -> &Entity {
        &self.entities[id]
    }

    pub(super) fn get_mut(&mut self, id: usize) -> &mut Entity {
        &mut self.entities[id]
    }

    /// Whether an entity waits for service or is served.
    pub(super) fn is_busy(&self, id: usize) -> bool {
        matches!(self.entities[id].state, State::Active | State::InService)
    }

    pub(super) const fn has_in_service(&self) -> bool {
        self.in_service.is_some()
    }

    pub(super) fn is_in_service(&self, id: usize) -> bool {
        self.in_service == Some(id)
    }

    /// Gives an entity another weight and class.
    pub(super) fn set_weight(&mut self, id: usize, class: IoClass, weight: u32) {
        let entity = &mut self.entities[id];
        if entity.weight == weight && entity.class == tree_of(class) {
            return;
        }
        if entity.state == State::Out {
            (entity.weight, entity.class) = (weight, tree_of(class));
            return;
        }
        self.trees[entity.class].weights -= u64::from(entity.weight);
        if entity.class != tree_of(class) {
            entity.start = self.trees[tree_of(class)].time;
        }
        (entity.weight, entity.class) = (weight, tree_of(class));
        self.trees[entity.class].weights += u64::from(weight);
        entity.finish = entity.start + delta(entity.budget, u64::from(weight));
    }

    /// An entity needs service. One that `continues` a pause that was not its own fault does not
    /// lose the time since its finish; the advance is divided by `raised`.
    pub(super) fn activate(&mut self, id: usize, budget: u64, continues: bool, raised: u32) {
        let entity = &mut self.entities[id];
        let tree = &mut self.trees[entity.class];
        let is_late = continues && tree.time > entity.finish;
        let least = if is_late { entity.finish } else { tree.time };
        match entity.state {
            State::Lingering => {
                self.lingering.retain(|&other| other != id);
                entity.start = least.max(entity.finish);
            }
            _ => {
                entity.start = least;
                tree.weights += u64::from(entity.weight);
            }
        }
        entity.budget = budget;
        entity.finish = entity.start + delta(budget, u64::from(entity.weight));
        if is_late && tree.time > entity.finish {
            let advance = (tree.time - entity.finish) / u64::from(raised.max(1));
            entity.start += advance;
            entity.finish += advance;
        }
        self.push(id);
    }

    fn push(&mut self, id: usize) {
        self.insertions += 1;
        self.entities[id].state = State::Active;
        self.entities[id].sequence = self.insertions;
        self.active.push(id);
    }

    /// The entity in service waits again, with a new budget.
    pub(super) fn requeue(&mut self, id: usize, budget: u64) {
        let entity = &mut self.entities[id];
        entity.start += delta(entity.service, u64::from(entity.weight));
        entity.budget = budget;
        entity.finish = entity.start + delta(budget, u64::from(entity.weight));
        self.in_service = None;
        self.push(id);
    }

    /// An entity that waits needs another budget. Of those with the same finish it is then the
    /// last.
    pub(super) fn set_budget(&mut self, id: usize, budget: u64) {
        let entity = &mut self.entities[id];
        if entity.state == State::Active && entity.budget != budget {
            entity.budget = budget;
            entity.finish = entity.start + delta(budget, u64::from(entity.weight));
            self.insertions += 1;
            entity.sequence = self.insertions;
        }
    }

    /// An entity needs no more service.
    pub(super) fn deactivate(&mut self, id: usize) {
        let entity = &mut self.entities[id];
        match entity.state {
            State::InService => {
                entity.finish = entity.start + delta(entity.service, u64::from(entity.weight));
                self.in_service = None;
            }
            State::Active => self.active.retain(|&other| other != id),
            State::Out | State::Lingering => return,
        }
        let tree = &mut self.trees[entity.class];
        if entity.finish > tree.time {
            entity.state = State::Lingering;
            self.lingering.push(id);
        } else {
            entity.state = State::Out;
            tree.weights -= u64::from(entity.weight);
        }
    }

    /// The entity to serve next, which is then in service.
    pub(super) fn select(&mut self, now: Nanos) -> Option<usize> {
        let mut first = 0;
        if now.since(self.idle_class_served) > IDLE_CLASS_WAITS {
            if self.active.iter().any(|&id| self.entities[id].class == 2) {
                first = 2;
            }
            self.idle_class_served = now;
        }
        let id = (first..3).find_map(|class| self.first_of(class))?;
        let class = self.entities[id].class;
        let earliest = self.earliest(class).unwrap_or(0);
        self.trees[class].time = self.trees[class].time.max(earliest);
        self.active.retain(|&other| other != id);
        self.entities[id].state = State::InService;
        self.entities[id].service = 0;
        self.in_service = Some(id);
        Some(id)
    }

    /// The entity that would be selected now.
    pub(super) fn peek(&self) -> Option<usize> {
        (0..3).find_map(|class| self.first_of(class))
    }

    /// The earliest start of a class.
    fn earliest(&self, class: usize) -> Option<u64> {
        let of_class = self.active.iter().map(|&id| &self.entities[id]);
        of_class.filter(|entity| entity.class == class).map(|entity| entity.start).min()
    }

    /// The eligible entity of a class with the earliest finish. If none is eligible, virtual time
    /// jumps to the earliest start.
    fn first_of(&self, class: usize) -> Option<usize> {
        let time = self.trees[class].time.max(self.earliest(class)?);
        let of_class = self.active.iter().copied().filter(|&id| {
            let entity = &self.entities[id];
            entity.class == class && entity.start <= time
        });
        of_class.min_by_key(|&id| (self.entities[id].finish, self.entities[id].sequence))
    }

    /// The entity in service has been given so many sectors.
    pub(super) fn serve(&mut self, id: usize, sectors: u64) {
        let entity = &mut self.entities[id];
        entity.service += sectors;
        let class = entity.class;
        self.trees[class].time += delta(sectors, self.trees[class].weights);
        let (entities, trees) = (&mut self.entities, &mut self.trees);
        self.lingering.retain(|&id| {
            let entity = &mut entities[id];
            let stays = entity.finish > trees[entity.class].time;
            if !stays {
                entity.state = State::Out;
                trees[entity.class].weights -= u64::from(entity.weight);
            }
            stays
        });
    }
}
