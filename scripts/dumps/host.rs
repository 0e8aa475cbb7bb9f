// A Rust program with nested generics, closures and inlining that crashes.
use std::collections::BTreeMap;
use std::sync::mpsc;
#[inline(never)]
fn sum<T: Iterator<Item = u64>>(it: T, scale: u64) -> u64 {
    it.map(|x| x.wrapping_mul(scale) ^ (x >> 3))
        .filter(|x| x % 3 != 1)
        .fold(7, |a, b| a.rotate_left(3) ^ b)
}
trait Shape {
    fn area(&self, n: u64) -> u64;
}
struct Ring(Vec<u64>);
impl Shape for Ring {
    #[inline(never)]
    fn area(&self, n: u64) -> u64 {
        let mut m = BTreeMap::new();
        for (i, x) in self.0.iter().enumerate() {
            *m.entry(x % 7).or_insert(i as u64) += n;
        }
        sum(m.values().copied(), n)
    }
}
#[inline(never)]
fn walk(s: &[Box<dyn Shape>], depth: u32, p: *mut u64) -> u64 {
    if depth == 0 {
        let mut v: Vec<String> = (0..20u64)
            .map(|i| format!("{:?}-{}", i, s[0].area(i)))
            .collect();
        v.sort();
        unsafe { *p = v.len() as u64 };
        return 1;
    }
    s.iter()
        .map(|x| x.area(depth as u64))
        .sum::<u64>()
        .wrapping_add(walk(s, depth - 1, p))
}
fn main() {
    let (tx, rx) = mpsc::channel();
    let t = std::thread::spawn(move || {
        for i in 0..50u64 {
            tx.send(sum(0..i * 100, i)).unwrap();
        }
        std::thread::park();
    });
    let total: u64 = rx.iter().take(50).fold(0, |a, b| a ^ b);
    let s: Vec<Box<dyn Shape>> = vec![
        Box::new(Ring((0..300).collect())),
        Box::new(Ring((0..99).map(|x| x * x).collect())),
    ];
    println!("{}", total ^ walk(&s, 6, std::ptr::null_mut()));
    t.join().unwrap();
}
