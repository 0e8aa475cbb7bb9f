package breakpad

import (
	"cmp"
	"slices"
	"sort"

	"github.com/symdepot/symdepot/functab"
)

// nest returns inlined calls in preorder. INLINE records name only the depth of a
// call: its caller is the call of the next lower depth that covers its addresses.
// A call in several callers becomes several ones. Ranges that no caller covers are
// left out.
func nest(in []functab.Inline) []functab.Inline {
	if nested(in) {
		return in
	}
	byDepth := slices.Clone(in)
	slices.SortStableFunc(byDepth, func(a, b functab.Inline) int { return cmp.Compare(a.Depth, b.Depth) })
	root := &node{}
	var above []part
	for depth := 0; len(byDepth) > 0 && byDepth[0].Depth == depth; depth++ {
		n := 1
		for n < len(byDepth) && byDepth[n].Depth == depth {
			n++
		}
		above = attach(byDepth[:n], above, root)
		byDepth = byDepth[n:]
	}
	return root.list(nil)
}

// nested reports whether the calls are in preorder and within their callers.
func nested(in []functab.Inline) bool {
	var open []int
	for i := range in {
		d := in[i].Depth
		if d > len(open) {
			return false
		}
		if d > 0 {
			for _, r := range in[i].Ranges {
				if !within(r, in[open[d-1]].Ranges) {
					return false
				}
			}
		}
		open = append(open[:d], i)
	}
	return true
}

// within reports whether one of the ranges, which should be sorted, contains r.
func within(r functab.Range, ranges []functab.Range) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Start > r.Start }) - 1
	return i >= 0 && r.Start+uint64(r.Size) <= ranges[i].Start+uint64(ranges[i].Size)
}

// node is a call with the calls inlined into it.
type node struct {
	functab.Inline
	inner []*node
}

func (n *node) list(out []functab.Inline) []functab.Inline {
	slices.SortStableFunc(n.inner, func(a, b *node) int { return cmp.Compare(a.Ranges[0].Start, b.Ranges[0].Start) })
	for _, c := range n.inner {
		out = c.list(append(out, c.Inline))
	}
	return out
}

// part is a range of a call. The parts of one depth are sorted and disjoint.
type part struct {
	start, end uint64
	record     int // number of the record
	call       *node
}

// attach makes nodes of the calls of one depth below the parts of the depth above,
// or below root for depth 0, and returns their parts.
func attach(calls []functab.Inline, above []part, root *node) []part {
	var parts []part
	for i := range calls {
		for _, r := range calls[i].Ranges {
			if end := r.Start + uint64(r.Size); end > r.Start {
				parts = append(parts, part{start: r.Start, end: end, record: i})
			}
		}
	}
	byStart := func(a, b part) int { return cmp.Compare(a.start, b.start) }
	slices.SortStableFunc(parts, byStart)
	type key struct {
		record int
		caller *node
	}
	nodes := map[key]*node{}
	var out []part
	add := func(p part, caller *node) {
		k := key{p.record, caller}
		n := nodes[k]
		if n == nil {
			n = &node{Inline: calls[p.record]}
			n.Ranges = nil
			nodes[k] = n
			caller.inner = append(caller.inner, n)
		}
		n.Ranges = append(n.Ranges, functab.Range{Start: p.start, Size: uint32(p.end - p.start)})
		p.call = n
		out = append(out, p)
	}
	done, k := uint64(0), 0
	for _, p := range parts {
		if p.start = max(p.start, done); p.start >= p.end {
			continue
		}
		done = p.end
		if calls[0].Depth == 0 {
			add(p, root)
			continue
		}
		for k < len(above) && above[k].end <= p.start {
			k++
		}
		for j := k; j < len(above) && above[j].start < p.end; j++ {
			cut := p
			cut.start, cut.end = max(p.start, above[j].start), min(p.end, above[j].end)
			add(cut, above[j].call)
		}
	}
	return out
}
