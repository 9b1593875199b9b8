//! The owner file under real shells: who gets it, who is refused, and what an answer means.

use super::*;
use crate::shell_machine::Machine;

fn owner(installation: &str, generation: u64) -> HostOwner {
    HostOwner::new(installation, "host-1", "machine-1", "default/prod", generation).expect("an owner")
}

fn asked(machine: &Machine, request: &ShellRequest) -> OwnerAnswer {
    read(&machine.answer(request)).expect("an answer")
}

#[test]
fn one_gets_it_and_another_sees_whose_it_is() {
    for machine in Machine::of_each_shell() {
        let (first, second) = (owner("laptop-1", 1), owner("laptop-2", 1));
        assert_eq!(asked(&machine, &look()), OwnerAnswer::Free);
        let answer = asked(&machine, &claim(&first));
        assert!(
            matches!(&answer, OwnerAnswer::Ours { owner, is_new: true, since_s: Some(_) } if *owner == first),
            "{answer:?}"
        );
        let answer = asked(&machine, &claim(&first));
        assert!(matches!(&answer, OwnerAnswer::Ours { is_new: false, .. }), "{answer:?}");
        for request in [claim(&second), release(&second), look()] {
            let answer = asked(&machine, &request);
            assert!(matches!(&answer, OwnerAnswer::Other { owner, .. } if *owner == first), "{answer:?}");
        }
        assert_eq!(asked(&machine, &release(&first)), OwnerAnswer::Free);
        assert!(matches!(asked(&machine, &claim(&second)), OwnerAnswer::Ours { is_new: true, .. }));
    }
}

#[test]
fn two_files_that_are_not_there_are_no_owner() {
    for machine in Machine::of_each_shell() {
        let program = format!("{HELD}if is_owned \"$(cat /nowhere 2>/dev/null)\"; then say owned yes; fi\n");
        assert_eq!(machine.answer(&ShellRequest::reading(CommandLine::of("sh -c {}", [&program]))), "");
    }
}

#[test]
fn an_older_generation_is_refused_after_a_take_over() {
    for machine in Machine::of_each_shell() {
        let (old, new) = (owner("laptop-1", 1), owner("laptop-2", 1));
        asked(&machine, &claim(&old));
        // What is taken over has to be what was seen.
        let answer = asked(&machine, &take_over(&new, &owner("laptop-1", 7)));
        assert!(matches!(&answer, OwnerAnswer::Other { owner, .. } if *owner == old), "{answer:?}");
        let taken = new.after(&old);
        let answer = asked(&machine, &take_over(&new, &old));
        assert!(
            matches!(&answer, OwnerAnswer::Ours { owner, is_new: true, .. } if *owner == taken),
            "{answer:?}"
        );
        for request in [claim(&old), release(&old), take_over(&old, &old)] {
            let answer = asked(&machine, &request);
            assert!(matches!(&answer, OwnerAnswer::Other { owner, .. } if *owner == taken), "{answer:?}");
        }
        assert_eq!(taken.generation, 2);
    }
}

#[test]
fn of_many_at_once_one_gets_it() {
    let machine = Machine::of_shell("sh");
    let owners: Vec<HostOwner> = (0..8).map(|number| owner(&format!("laptop-{number}"), 1)).collect();
    let answers: Vec<OwnerAnswer> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            owners.iter().map(|owner| scope.spawn(|| asked(&machine, &claim(owner)))).collect();
        asking.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    });
    let made = answers.iter().filter(|answer| matches!(answer, OwnerAnswer::Ours { .. })).count();
    assert_eq!(made, 1, "{answers:?}");
}

#[test]
fn a_file_that_is_none_belongs_to_nobody_here() {
    for machine in Machine::of_each_shell() {
        machine.write("var/lib/capstan/owner", "host=\u{1b}[31mx\n");
        assert_eq!(asked(&machine, &look()), OwnerAnswer::Unreadable);
        assert_eq!(asked(&machine, &claim(&owner("laptop-1", 1))), OwnerAnswer::Unreadable);
    }
}

#[test]
fn a_running_job_keeps_everybody_out() {
    let machine = Machine::of_shell("sh");
    asked(&machine, &claim(&owner("laptop-1", 1)));
    let lock = machine.hold_lock();
    assert_eq!(asked(&machine, &release(&owner("laptop-1", 1))), OwnerAnswer::Busy);
    drop(lock);
    assert_eq!(asked(&machine, &release(&owner("laptop-1", 1))), OwnerAnswer::Free);
}

#[test]
fn words_of_an_owner_are_words() {
    for word in ["", "a b", "a\nb", "$(id)", "a=b", "x".repeat(254).as_str()] {
        let error = HostOwner::new(word, "h", "m", "c", 1).expect_err(word).to_string();
        assert!(error.contains("cannot be the installation"), "{error}");
    }
}

proptest::proptest! {
    #[test]
    fn no_answer_is_too_strange(text in "((answer|owner_[a-z]{1,12}|reason)=\\PC{0,40}\n){0,12}(end=yes\n)?") {
        if let Ok(OwnerAnswer::Ours { owner, .. } | OwnerAnswer::Other { owner, .. }) = read(&text) {
            proptest::prop_assert!(owner.to_string().chars().all(|c| !c.is_control()));
        }
    }
}
