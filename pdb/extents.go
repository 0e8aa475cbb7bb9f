package pdb

import "slices"

// extent is a range of addresses relative to the image base.
type extent struct{ start, end uint64 }

// merge sorts ranges and joins those that touch.
func merge(list []extent) []extent {
	if !slices.IsSortedFunc(list, byStart) {
		slices.SortFunc(list, byStart)
	}
	out := list[:0]
	for _, e := range list {
		if n := len(out); n > 0 && out[n-1].end >= e.start {
			out[n-1].end = max(out[n-1].end, e.end)
		} else {
			out = append(out, e)
		}
	}
	return out
}

func byStart(x, y extent) int {
	switch {
	case x.start < y.start:
		return -1
	case x.start > y.start:
		return 1
	}
	return 0
}

// intersect appends the code that is in both sorted lists to dst.
func intersect(dst, a, b []extent) []extent {
	for len(a) > 0 && len(b) > 0 {
		e := extent{max(a[0].start, b[0].start), min(a[0].end, b[0].end)}
		if e.start < e.end {
			dst = append(dst, e)
		}
		if a[0].end < b[0].end {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return dst
}

// subtract appends the code of a that is not in b to dst. Both are sorted.
func subtract(dst, a, b []extent) []extent {
	for _, e := range a {
		for len(b) > 0 && b[0].end <= e.start {
			b = b[1:]
		}
		for i := 0; i < len(b) && b[i].start < e.end; i++ {
			if e.start < b[i].start {
				dst = append(dst, extent{e.start, b[i].start})
			}
			e.start = max(e.start, b[i].end)
		}
		if e.start < e.end {
			dst = append(dst, e)
		}
	}
	return dst
}
