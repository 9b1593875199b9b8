//! A set of paths: a tree of steps, each of which may be a member. Owns the algebra of such sets.
//! Must not know values or schemas.
//!
//! Source: structured-merge-diff v6 `fieldpath/set.go`.

use std::cmp::Ordering;

use super::element::Element;

/// Branches in canonical order. Every branch is a member or has members below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSet(Vec<Branch>);

/// What the set holds at and below one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub step: Element,
    /// The path that ends here is in the set.
    pub member: bool,
    pub below: PathSet,
}

impl PathSet {
    /// From branches in any order, each step once.
    pub fn from_branches(mut branches: Vec<Branch>) -> Self {
        branches.retain(|branch| branch.member || !branch.below.is_empty());
        // Most lists come sorted, and are left as they are; equal neighbours have to be joined, so
        // the order is a strict one.
        if !branches.is_sorted_by(|a, b| a.step < b.step) {
            branches.sort_by(|a, b| a.step.cmp(&b.step));
            branches = joined(branches);
        }
        Self(branches)
    }

    /// The union of many sets, in pairs: one after the other would copy the first ones again for each.
    pub fn union_all(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => a.union(b),
                    one => one.first().cloned().unwrap_or_default(),
                })
                .collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// A set of paths that consist of fields only.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        paths.iter().fold(Self::default(), |set, path| {
            let single = path.iter().rev().fold(Self::default(), |below, name| {
                let member = below.is_empty();
                Self(vec![Branch { step: Element::field(name), member, below }])
            });
            set.union(&single)
        })
    }

    pub fn branches(&self) -> &[Branch] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, step: &Element) -> Option<&Branch> {
        self.0.binary_search_by(|branch| branch.step.cmp(step)).ok().and_then(|at| self.0.get(at))
    }

    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Some(Branch {
                step: ours.step.clone(),
                member: ours.member || theirs.member,
                below: ours.below.union(&theirs.below),
            }),
            (one, other) => one.or(other).cloned(),
        })
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| {
            let (ours, theirs) = (ours?, theirs?);
            let below = ours.below.intersection(&theirs.below);
            Some(Branch { step: ours.step.clone(), member: ours.member && theirs.member, below })
        })
    }

    /// What is in this set and not in `other`. Paths are compared as they are: taking away a parent
    /// leaves its children, and the other way round.
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| {
            let ours = ours?;
            let Some(theirs) = theirs else { return Some(ours.clone()) };
            let below = ours.below.difference(&theirs.below);
            Some(Branch { step: ours.step.clone(), member: ours.member && !theirs.member, below })
        })
    }

    /// As `difference`, but a path in `other` takes everything below it along.
    pub fn difference_below(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| {
            let ours = ours?;
            match theirs {
                None => Some(ours.clone()),
                Some(theirs) if theirs.member => None,
                Some(theirs) => {
                    Some(Branch { below: ours.below.difference_below(&theirs.below), ..ours.clone() })
                }
            }
        })
    }

    /// Every path of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|ours| {
            other
                .get(&ours.step)
                .is_some_and(|theirs| (theirs.member || !ours.member) && ours.below.is_subset(&theirs.below))
        })
    }

    /// Walks both sets side by side; what `choose` returns and is not empty is kept.
    fn combine(
        &self,
        other: &Self,
        mut choose: impl FnMut(Option<&Branch>, Option<&Branch>) -> Option<Branch>,
    ) -> Self {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::with_capacity(self.0.len());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return Self(out),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.step.cmp(&b.step),
            };
            let a = if order == Ordering::Greater { None } else { ours.next() };
            let b = if order == Ordering::Less { None } else { theirs.next() };
            out.extend(choose(a, b).filter(|branch| branch.member || !branch.below.is_empty()));
        }
    }

    /// The first `max` members as text, parents before children.
    pub fn texts(&self, max: usize) -> Vec<String> {
        let mut texts = Vec::new();
        self.collect_texts("", max, &mut texts);
        texts
    }

    fn collect_texts(&self, prefix: &str, max: usize, texts: &mut Vec<String>) {
        for branch in &self.0 {
            if texts.len() >= max {
                return;
            }
            let path = format!("{prefix}{}", branch.step);
            if branch.member {
                texts.push(path.clone());
            }
            branch.below.collect_texts(&path, max, texts);
        }
    }
}

/// Neighbours of one step become one branch.
fn joined(branches: Vec<Branch>) -> Vec<Branch> {
    let mut out: Vec<Branch> = Vec::with_capacity(branches.len());
    let mut below: Vec<PathSet> = Vec::new();
    let finish = |out: &mut Vec<Branch>, below: &mut Vec<PathSet>| {
        if let (Some(last), false) = (out.last_mut(), below.is_empty()) {
            below.push(std::mem::take(&mut last.below));
            last.below = PathSet::union_all(std::mem::take(below));
        }
    };
    for branch in branches {
        match out.last_mut() {
            Some(last) if last.step == branch.step => {
                last.member |= branch.member;
                below.push(branch.below);
            }
            _ => {
                finish(&mut out, &mut below);
                out.push(branch);
            }
        }
    }
    finish(&mut out, &mut below);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&[&str]]) -> PathSet {
        PathSet::of_fields(paths)
    }

    #[test]
    fn the_algebra_of_paths() {
        let a = set(&[&["a"], &["a", "b"], &["c", "d"], &["e"]]);
        let b = set(&[&["a", "b"], &["c"], &["e"], &["f"]]);
        assert_eq!(a.union(&b).texts(99), [".a", ".a.b", ".c", ".c.d", ".e", ".f"]);
        assert_eq!(a.intersection(&b).texts(99), [".a.b", ".e"]);
        assert_eq!(a.difference(&b).texts(99), [".a", ".c.d"]);
        assert_eq!(a.difference_below(&b).texts(99), [".a"]);
        assert!(a.intersection(&b).is_subset(&a) && !a.is_subset(&b));
        assert!(a.difference(&a).is_empty());
    }

    #[test]
    fn branches_may_come_in_any_order() {
        let leaf =
            |name: &str| Branch { step: Element::field(name), member: true, below: PathSet::default() };
        let empty = Branch { member: false, ..leaf("x") };
        let made = PathSet::from_branches(vec![leaf("b"), empty, leaf("a"), leaf("b")]);
        assert_eq!(made.texts(99), [".a", ".b"]);
    }
}
