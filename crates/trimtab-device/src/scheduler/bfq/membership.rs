//! Which queue a process has: made for it, shared with others, and freed after the last of them.

use trimtab_io::{IoClass, Nanos, Request};

use super::queue::{Queue, level_of};
use super::wf2q::Wf2q;
use super::{Bfq, Group};
use crate::scheduler::is_sync;
use crate::scheduler::processes::ProcessKey;
use crate::slab::Slab;

/// A process that begins within this time may share the queue of another.
const SHARING: Nanos = Nanos::from_millis(180);

impl Bfq {
    /// The queue of a request, made if there is none.
    pub(super) fn queue_of(&mut self, now: Nanos, request: &Request) -> u32 {
        let key = ProcessKey::of(request);
        if let Some(queue) = self.processes.queue(key) {
            return queue;
        }
        self.forget(now);
        let group = self.group(request.issuer.group);
        let number = self
            .shared_with(now, request, group)
            .unwrap_or_else(|| self.new_queue(now, request, group));
        self.queues[number].processes += 1;
        self.processes.add(now, key, number);
        number
    }

    fn new_queue(&mut self, now: Nanos, request: &Request, place: usize) -> u32 {
        let group = &mut self.groups[place];
        let entity = group.queues.add(request.issuer.class, 1);
        let budget = 2 * self.options.max_budget() / 3;
        let number = self.queues.insert(Queue::new(request, place, entity, budget));
        if entity == group.members.len() {
            group.members.push(number);
        } else {
            group.members[entity] = number;
        }
        if is_sync(request) {
            self.shareable = Some((number, now));
            let others = self.busy.iter().any(|&busy| busy > 0);
            for member in self.burst.add(now, number, others) {
                self.queues[member].in_large_burst = true;
            }
        }
        number
    }

    /// Forgets processes that have been quiet for long, and frees queues that have none left.
    fn forget(&mut self, now: Nanos) {
        let queues = &mut self.queues;
        let is_in_use = |number: u32, queues: &Slab<Queue>| {
            let queue = &queues[number];
            queue.processes == 1 && (queue.is_busy || queue.in_device > 0)
        };
        while let Some(number) = self.processes.forget_one(now, |number| is_in_use(number, queues))
        {
            let queue = &mut queues[number];
            queue.processes -= 1;
            if queue.processes > 0 {
                continue;
            }
            self.groups[queue.group].queues.release(queue.entity);
            self.burst.forget(number);
            self.shareable = self.shareable.filter(|&(shareable, _)| shareable != number);
            queues.remove(number);
        }
    }

    /// The queue that a new process shares. Where idling gains no throughput, processes of one
    /// priority that begin shortly after each other share a queue: they are taken for parts of one
    /// program.
    fn shared_with(&self, now: Nanos, request: &Request, group: usize) -> Option<u32> {
        let (number, made) = self.shareable?;
        let queue = &self.queues[number];
        let is_alike = queue.group == group
            && queue.class == request.issuer.class
            && queue.level == level_of(&request.issuer);
        let gains = self.options.rotational || !self.queueing;
        let shares = is_sync(request) && is_alike && !gains && now.since(made) <= SHARING;
        shares.then_some(number)
    }

    /// The place of a group, made if there is none.
    fn group(&mut self, id: u16) -> usize {
        let found = self.groups.iter().position(|group| group.id == id);
        found.unwrap_or_else(|| {
            self.root.add(IoClass::BestEffort, self.options.weight(id));
            let (queues, members) = (Wf2q::default(), Vec::new());
            self.groups.push(Group { id, queues, members, pending: 0 });
            self.groups.len() - 1
        })
    }
}
