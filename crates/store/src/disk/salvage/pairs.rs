//! The pairs of a damaged leaf. Where offsets are altered too, they are looked for: from the end of
//! one pair to where the next may begin. Must not know what makes a pair hold; it is asked.

use super::node::{Node, Pair};
/// Longest stretch in which the end of a value is looked for.
const SEARCHED_BYTES_MAX: usize = 64 << 10;

/// What is known of a table's pairs without their page.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    /// Key and value are as they were written.
    pub(super) is_intact: fn(&[u8], &[u8]) -> bool,
    /// A value may begin with these bytes.
    pub(super) may_begin: fn(&[u8]) -> bool,
}

/// True when every pair holds and they lie one behind the other in key order.
pub(super) fn is_consistent(node: Node<'_>, proof: Proof) -> bool {
    let mut last_key: Option<&[u8]> = None;
    let all_hold = (0..node.count).all(|n| {
        let Some(pair) = node.pair(n) else { return false };
        let key = node.key(&pair);
        let is_next = last_key.replace(key).is_none_or(|last| last < key);
        is_next && (proof.is_intact)(key, node.value(&pair))
    });
    node.is_leaf() && node.count > 0 && all_hold
}

/// The pairs that hold where the offsets say they are.
pub(super) fn pairs_that_hold(node: Node<'_>, proof: Proof) -> Vec<Pair> {
    (0..node.count).filter_map(|n| holds(node, n, proof)).collect()
}

/// The pairs as far as they can be told, each with whether it holds.
pub(super) fn pairs_of_damaged(node: Node<'_>, proof: Proof) -> Vec<(Pair, bool)> {
    let holding = |node: &Node<'_>| (0..node.count).any(|n| holds(*node, n, proof).is_some());
    let others = (1..=node.count_max()).map(|count| Node { count, ..node });
    let possible = others.filter(|node| node.is_possible(false));
    // Another count moves every offset, so others are tried only where nothing holds under this
    // one.
    let nodes: Vec<Node<'_>> = if holding(&node) {
        vec![node]
    } else {
        std::iter::once(node).filter(|node| node.count <= node.count_max()).chain(possible).collect()
    };
    let attempts = nodes.into_iter().map(|node| (node, attempt(node, proof)));
    let best = attempts.max_by_key(|(_, found)| found.iter().flatten().count());
    let Some((node, found)) = best else { return Vec::new() };
    let told = found.into_iter().enumerate().map(|(n, pair)| match pair {
        Some(pair) => Some((pair, true)),
        None => node.pair(n).map(|pair| (pair, false)),
    });
    told.flatten().collect()
}

/// The pairs of a leaf if it has as many as the node says.
fn attempt(node: Node<'_>, proof: Proof) -> Vec<Option<Pair>> {
    let mut found: Vec<Option<Pair>> = (0..node.count).map(|n| holds(node, n, proof)).collect();
    for n in 0..node.count {
        if found[n].is_none() {
            found[n] = search(node, n, &found, proof);
        }
    }
    found
}

fn holds(node: Node<'_>, n: usize, proof: Proof) -> Option<Pair> {
    node.pair(n).filter(|pair| (proof.is_intact)(node.key(pair), node.value(pair)))
}

/// The pair behind another one, with its ends wherever it holds.
fn search(node: Node<'_>, n: usize, found: &[Option<Pair>], proof: Proof) -> Option<Pair> {
    let before = n.checked_sub(1);
    let key_start = match before {
        Some(before) => found[before].as_ref().map(|pair| pair.key.end).or_else(|| node.key_end(before))?,
        None => node.keys_start(),
    };
    let next = found[n..].iter().flatten().next();
    let values_end = next.map_or(node.bytes.len(), |next| next.value.start);
    let told = before.map_or_else(|| node.values_start(), |before| node.value_end(before));
    let value_starts: Vec<usize> = match before.and_then(|before| found[before].as_ref()) {
        Some(before) => vec![before.value.end],
        None => told.into_iter().chain(beginnings(node, node.keys_start(), values_end, proof)).collect(),
    };
    let may_begin = |at: &usize| node.bytes.get(*at..).is_some_and(proof.may_begin);
    value_starts.into_iter().filter(may_begin).find_map(|value_start| {
        let keys_end = next.map_or(value_start, |next| next.key.start);
        let between = beginnings(node, value_start + 1, values_end, proof);
        let value_ends = node.value_end(n).into_iter().chain(between).chain([values_end]);
        // One end is searched freely at a time: both at once would be the square of the page.
        let pairs = value_ends.flat_map(|value_end| {
            let key_ends = node.key_end(n).into_iter().chain(within(key_start, keys_end));
            key_ends.map(move |key_end| Pair { key: key_start..key_end, value: value_start..value_end })
        });
        let rest = within(value_start, values_end).flat_map(|value_end| {
            let key_ends = node.key_end(n).into_iter().chain([keys_end]);
            key_ends.map(move |key_end| Pair { key: key_start..key_end, value: value_start..value_end })
        });
        pairs.chain(rest).find(|pair| is_there(node, pair, proof))
    })
}

fn is_there(node: Node<'_>, pair: &Pair, proof: Proof) -> bool {
    let parts = (node.bytes.get(pair.key.clone()), node.bytes.get(pair.value.clone()));
    matches!(parts, (Some(key), Some(value)) if !key.is_empty() && (proof.is_intact)(key, value))
}

/// Where values may begin.
fn beginnings(node: Node<'_>, start: usize, end: usize, proof: Proof) -> impl Iterator<Item = usize> {
    within(start, end).filter(move |at| node.bytes.get(*at..).is_some_and(proof.may_begin))
}

fn within(start: usize, end: usize) -> std::ops::RangeInclusive<usize> {
    start..=end.min(start.saturating_add(SEARCHED_BYTES_MAX))
}
