package book

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

const (
	// MaxQuery is how many bytes a query has at most.
	MaxQuery = 200
	// maxHits is how many hits a search has at most.
	maxHits = 30
	// hitsOfPage is how many of them one page has at most.
	hitsOfPage = 3
	// snippetBytes is the length of the text that a hit shows.
	snippetBytes = 220
)

// Hit is a part of a page that has the words of a query.
type Hit struct {
	Page    *Page
	Heading Heading // the zero Heading: the beginning of the page, or its whole
	Snippet []Piece
}

// Piece is a part of a text.
type Piece struct {
	Text   string
	Marked bool // it is a word of the query
}

// section is a heading of a page and what stands below it, up to the next heading.
type section struct {
	page    *Page
	heading Heading
	text    string
	// The same without differences of letter case; each letter stands at the same byte.
	foldedTitle, foldedHeading, foldedText string
}

// sections cuts all pages into sections.
func (b *Book) sections() (all []section) {
	for _, p := range b.order {
		doc, headings := p.tree()
		s := section{page: p}
		var list []string
		end := func() {
			s.text = strings.Join(list, " ")
			s.foldedTitle, s.foldedHeading, s.foldedText = fold(p.Title), fold(s.heading.Text), fold(s.text)
			all = append(all, s)
			list = nil
		}
		for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
			id, _ := n.AttributeString("id")
			at := slices.IndexFunc(headings, func(h Heading) bool { return n.Kind() == ast.KindHeading && h.ID == id })
			switch {
			case at < 0:
				list = append(list, plain(n, p.source))
			case at > 0: // the first one is the title
				end()
				s = section{page: p, heading: headings[at]}
			}
		}
		end()
	}
	return all
}

// fold returns a text in lower case. Letters whose lower case has another length stay.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if low := unicode.ToLower(r); utf8.RuneLen(low) == utf8.RuneLen(r) {
			return low
		}
		return r
	}, s)
}

// queryWords returns the words of a query, each once, without the signs around them.
func queryWords(query string) (words []string) {
	if len(query) > MaxQuery || !utf8.ValidString(query) {
		return nil
	}
	for w := range strings.FieldsSeq(fold(query)) {
		w = strings.Trim(w, `?!.,:;"'()“”…`)
		if w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// weights of a word: in a title, in another heading, in the text.
const (
	titleWeight   = 8
	headingWeight = 10
	textWeight    = 1
)

// worth returns how well a text fits a word: 0 is not at all, 2 is as the beginning of a word.
func worth(text, word string) int {
	at := strings.Index(text, word)
	switch {
	case at < 0:
		return 0
	case at == 0 || strings.Contains(text, " "+word):
		return 2
	}
	return 1
}

// score returns how well a section fits the words, and which of them the section lacks.
func (s *section) score(words []string) (score int, lacking []string) {
	own := 0 // without the title of the page, which all its sections share
	for _, w := range words {
		here := headingWeight*worth(s.foldedHeading, w) + textWeight*worth(s.foldedText, w)
		if s.heading.ID == "" { // the title is the heading
			here += headingWeight * worth(s.foldedTitle, w)
		}
		all := here + titleWeight*worth(s.foldedTitle, w)
		if all == 0 {
			lacking = append(lacking, w)
		}
		own += here
		score += all
	}
	if own == 0 && s.heading.ID != "" {
		return 0, lacking
	}
	return score, lacking
}

// Search returns the parts of pages that have all words of a query, in any letter case, the
// best first; parts with the words in headings before others. A page that has the words in
// different parts is a hit as a whole. more: there are hits that are not returned. A query of
// more than MaxQuery bytes has no hit.
func (b *Book) Search(query string) (hits []Hit, more bool) {
	words := queryWords(query)
	if len(words) == 0 {
		return nil, false
	}
	type scored struct {
		section *section
		score   int
		whole   bool
	}
	var all []scored
	index := b.index()
	for start := 0; start < len(index); {
		var best []scored
		missing := words
		end := start
		for ; end < len(index) && index[end].page == index[start].page; end++ {
			score, lacking := index[end].score(words)
			if len(lacking) == 0 && score > 0 {
				best = append(best, scored{&index[end], score, false})
			}
			missing = slices.DeleteFunc(slices.Clone(missing), func(w string) bool { return !slices.Contains(lacking, w) })
		}
		if len(best) == 0 && len(missing) == 0 {
			best = []scored{{&index[start], 1, true}}
		}
		sorting.Stable(best, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
		all = append(all, best[:min(len(best), hitsOfPage)]...)
		start = end
	}
	sorting.Stable(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	for _, s := range all[:min(len(all), maxHits)] {
		hits = append(hits, Hit{s.section.page, s.section.heading, s.section.snippet(words)})
	}
	return hits, len(all) > maxHits
}

// snippet returns the text around the first word of the query that the section has.
func (s *section) snippet(words []string) []Piece {
	from := 0
	for _, w := range words {
		if at := strings.Index(s.foldedText, w); at >= 0 {
			if start := at - snippetBytes/4; start > 0 {
				from = at
				if space := strings.IndexByte(s.text[start:at], ' '); space >= 0 {
					from = start + space + 1
				}
			}
			break
		}
	}
	to := min(len(s.text), from+snippetBytes)
	if to < len(s.text) {
		if space := strings.LastIndexByte(s.text[from:to], ' '); space > 0 {
			to = from + space
		}
		for !utf8.RuneStart(s.text[to]) {
			to--
		}
	}
	var pieces []Piece
	add := func(text string, marked bool) {
		if text != "" {
			pieces = append(pieces, Piece{text, marked})
		}
	}
	if from > 0 {
		add("… ", false)
	}
	for at := from; at < to; {
		next, length := to, 0
		for _, w := range words {
			if i := strings.Index(s.foldedText[at:to], w); i >= 0 && (at+i < next || at+i == next && len(w) > length) {
				next, length = at+i, len(w)
			}
		}
		add(s.text[at:next], false)
		add(s.text[next:next+length], true)
		at = next + length
	}
	if to < len(s.text) {
		add(" …", false)
	}
	return pieces
}
