//! One Machine more or one less. Must not know why it is wanted, only that it is safe.
//! Source: KCP-9a, KCP-9b, KCP-10; `scale.go`, v1.14.2.

use super::preflight::{self, Intent};
use super::{Act, Blocked, Flow, Pending, Why, desired, leader, select};
use capi_types::names::annotation;

pub fn to_desired(p: &mut Pending) -> Flow {
    let (current, wanted) = (p.observed.machines.len(), p.observed.desired());
    match current.cmp(&wanted) {
        std::cmp::Ordering::Equal => Flow::Continue(()),
        std::cmp::Ordering::Less if current == 0 => {
            // No preflight: there is nothing whose health could matter.
            create(p, false, Why::FirstMachine { desired: wanted })
        }
        std::cmp::Ordering::Less => add(p, Why::TooFew { current, desired: wanted }),
        std::cmp::Ordering::Greater => {
            let Some(machine) = select::machine_to_go(&p.observed, &[]) else { return Flow::Break(()) };
            let name = machine.name().to_owned();
            remove(p, &name, Why::TooMany { current, desired: wanted })
        }
    }
}

/// A Machine that joins, if the others allow it.
pub fn add(p: &mut Pending, why: Why) -> Flow {
    preflight::require(p, Intent::Add)?;
    create(p, true, why)
}

/// The deletion of a Machine, if the others allow it; its etcd member goes later, when it is drained.
pub fn remove(p: &mut Pending, name: &str, why: Why) -> Flow {
    preflight::require(p, Intent::Remove(name))?;
    let Some(machine) = p.observed.machine(name) else { return Flow::Break(()) };
    match leader::forward(&p.observed, machine) {
        Err(blocked) => return p.fail(blocked),
        Ok(None) => {}
        Ok(Some(transfer)) => p.step(transfer, Why::Leads { machine: name.to_owned() }),
    }
    p.step(Act::DeleteMachine { machine: name.to_owned() }, why);
    Flow::Break(())
}

fn create(p: &mut Pending, joins: bool, why: Why) -> Flow {
    let domain = select::domain_for_new(&p.observed);
    match desired::new_machine(&p.observed, domain, joins) {
        Err(error) => p.fail(Blocked::NamingTemplate { detail: error.to_string() }),
        Ok(new) => {
            p.step(Act::CreateMachine(Box::new(new)), why);
            // The new Machine carries the note from here on; a mark that stays would hold back the
            // next remediation.
            if preflight::remediation_in_progress(&p.observed) {
                let key = annotation::REMEDIATION_IN_PROGRESS;
                if let Some(annotations) = p.observed.control_plane.metadata.annotations.as_mut() {
                    annotations.remove(key);
                }
                p.step(Act::Annotate { key, value: None }, Why::ReplacementMade);
            }
            Flow::Break(())
        }
    }
}
