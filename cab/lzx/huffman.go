package lzx

import "slices"

// codeLengths sets lens to the code lengths of a complete Huffman code for all
// symbols with a frequency above 0. The code is optimal unless the limit of bits
// per code shortens it. A single used symbol gets a second, unused one, because
// decoders reject incomplete codes. Without any used symbol all lengths are 0.
// work is scratch space with a capacity of at least len(freq).
func codeLengths(freq []uint32, lens []uint8, limit int, work []uint64) {
	clear(lens)
	used := work[:0]
	for sym, f := range freq {
		if f != 0 {
			used = append(used, uint64(f)<<16|uint64(sym))
		}
	}
	switch len(used) {
	case 0:
		return
	case 1:
		sym := int(used[0] & 0xFFFF)
		lens[sym] = 1
		if sym == 0 {
			lens[1] = 1
		} else {
			lens[0] = 1
		}
		return
	}
	slices.Sort(used)
	var weights [maxMain]uint32
	depths := weights[:len(used)]
	for i, u := range used {
		depths[i] = uint32(u >> 16)
	}
	minimumRedundancy(depths)
	var count [64]int
	for _, n := range depths {
		count[min(int(n), limit)]++
	}
	total := 0
	for n := 1; n <= limit; n++ {
		total += count[n] << (limit - n)
	}
	for ; total > 1<<limit; total-- {
		count[limit]--
		for n := limit - 1; n > 0; n-- {
			if count[n] > 0 {
				count[n]--
				count[n+1] += 2
				break
			}
		}
	}
	at := 0 // used is sorted by frequency: the rarest symbols get the longest codes
	for n := limit; n > 0; n-- {
		for range count[n] {
			lens[used[at]&0xFFFF] = uint8(n)
			at++
		}
	}
}

// minimumRedundancy replaces at least two weights in ascending order with their
// code lengths, in place (algorithm of Moffat and Katajainen).
func minimumRedundancy(a []uint32) {
	n := len(a)
	a[0] += a[1]
	root, leaf := 0, 2
	for next := 1; next < n-1; next++ {
		if leaf >= n || a[root] < a[leaf] {
			a[next] = a[root]
			a[root] = uint32(next)
			root++
		} else {
			a[next] = a[leaf]
			leaf++
		}
		if leaf >= n || root < next && a[root] < a[leaf] {
			a[next] += a[root]
			a[root] = uint32(next)
			root++
		} else {
			a[next] += a[leaf]
			leaf++
		}
	}
	a[n-2] = 0
	for next := n - 3; next >= 0; next-- {
		a[next] = a[a[next]] + 1
	}
	avail, used, depth := 1, 0, uint32(0)
	root = n - 2
	for next := n - 1; avail > 0; depth++ {
		for root >= 0 && a[root] == depth {
			used++
			root--
		}
		for ; avail > used; avail-- {
			a[next] = depth
			next--
		}
		avail, used = 2*used, 0
	}
}

// codes computes the canonical codes for the code lengths.
func codes(lens []uint8, code []uint16) {
	var count [maxCode + 1]int
	for _, n := range lens {
		count[n]++
	}
	count[0] = 0
	var next [maxCode + 1]uint32
	c := uint32(0)
	for n := 1; n <= maxCode; n++ {
		c = (c + uint32(count[n-1])) << 1
		next[n] = c
	}
	for sym, n := range lens {
		if n != 0 {
			code[sym] = uint16(next[n])
			next[n]++
		}
	}
}
