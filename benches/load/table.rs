//! The table that is printed, and the median.

/// Rows: what was measured, the figure, and what kube-apiserver with etcd needed on two such cores.
#[derive(Default)]
pub struct Table(Vec<[String; 3]>);

impl Table {
    pub fn add(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.compare(what, figure, "");
    }

    pub fn compare(&mut self, what: impl Into<String>, figure: impl Into<String>, reference: &str) {
        let row = [what.into(), figure.into(), reference.to_owned()];
        eprintln!("{}: {}", row[0], row[1]);
        self.0.push(row);
    }

    pub fn print(&self) {
        let width = |at: usize| self.0.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let (what_width, figure_width) = (width(0), width(1));
        for [what, figure, reference] in &self.0 {
            println!("{what:what_width$}  {figure:>figure_width$}  {reference}");
        }
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value that so many of a hundred do not exceed.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
