package zstdseq

// fast finds matches as libzstd does with one table. Of the places, every second one is looked at in pairs, and fewer where
// nothing is found for a while.
type fast struct {
	search
	table []uint32 // place + 1
	hash  hasher
	step  int
	at    int // the last place that was brought into the table before a match was found
}

func (f *fast) reset(s setting) {
	f.table, f.hash = table(f.table, s.hash), newHasher(s.least, s.hash)
	f.reach, f.step = 1<<s.window, int(max(s.step, 1))+1
}

func (f *fast) begin(t *text, n int, r repeats) {
	f.search.begin(t, n, 8, r)
	f.lowest = max(0, f.end-f.window)
	f.at = f.p
}

func (f *fast) put(p int) { f.table[f.hash.of(f.words(p))] = uint32(p) + 1 }

func (f *fast) next() seq {
	q, ok := f.swap()
	if !ok {
		q = f.find()
	}
	f.guess = q
	return q
}

// usable reports whether the four bytes at other, an earlier place in the window, equal those at p.
func (f *fast) usable(other, p int) bool {
	return other >= f.lowest && other < p && f.word(other) == f.word(p)
}

// find looks for a match from the place on.
func (f *fast) find() seq {
	step := f.step
	p, border := f.p, f.p+passStep/2
	next, third := p+1, p+step
	if third+1 >= f.limit {
		return seq{}
	}
	slot, follow := f.hash.of(f.words(p)), f.hash.of(f.words(next))
	other := int(f.table[slot]) - 1
	for {
		f.at = p
		f.table[slot] = uint32(p) + 1
		if f.repeated(third, f.one) {
			f.table[follow] = uint32(next) + 1
			q := f.repeat(third)
			if to := third - f.one; to > f.base && f.b[third-1-f.base] == f.b[to-1-f.base] {
				q.literals--
				q.length++
			}
			return q
		}
		if f.usable(other, p) {
			f.table[follow] = uint32(next) + 1
			return f.match(p, other, 4)
		}
		other = int(f.table[follow]) - 1
		f.at = next
		f.table[follow] = uint32(next) + 1
		after := f.hash.of(f.words(third))
		if f.usable(other, next) {
			q := f.match(next, other, 4)
			if third < f.anchor+int(q.literals+q.length) {
				f.table[after] = uint32(third) + 1
			}
			return q
		}
		other = int(f.table[after]) - 1
		slot, follow = after, f.hash.of(f.words(third+1))
		p, next = third, third+1
		third = p + step
		if third+1 >= f.limit {
			return seq{}
		}
		if third >= border {
			step++
			border += passStep / 2
		}
	}
}

func (f *fast) take(q seq) {
	start := f.search.take(q)
	if q.swapped() {
		if start <= f.limit {
			f.put(start)
		}
		return
	}
	if q != f.guess {
		f.at = min(start, f.limit)
		if f.at >= f.from {
			f.put(f.at)
		}
	}
	if f.p > f.limit {
		return
	}
	f.put(f.at + 2)
	f.put(f.p - 2)
}
