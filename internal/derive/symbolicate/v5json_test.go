package symbolicate

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// strange returns a text with characters that JSON escapes, and broken UTF-8.
func strange(r *rand.Rand) string {
	pieces := []string{"", "a", "std::vector<int>", "a longer text of ASCII ", "&", "\"", `\`, "\n", "\b", "\f", "\r", "\t", "\x00", "\x1f", "\x7f", "ä", "日本", "\u2028", "\u2029", "\xff", "\xe2\x80", "\U0001F600", "\uFFFD", "/"}
	text := ""
	for range r.IntN(6) {
		text += pieces[r.IntN(len(pieces))]
	}
	return text
}

// TestV5JSON compares the written answers with those of encoding/json.
func TestV5JSON(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	found := true
	for range 2000 {
		a := V5Answer{Results: make([]V5Result, r.IntN(3))}
		for i := range a.Results {
			res := &a.Results[i]
			res.Stacks = make([][]V5Frame, r.IntN(3))
			for k := range res.Stacks {
				res.Stacks[k] = make([]V5Frame, r.IntN(3))
				for n := range res.Stacks[k] {
					f := V5Frame{Frame: n, Module: strange(r), ModuleOffset: strange(r), Function: strange(r), FunctionOffset: strange(r), FunctionSize: strange(r), File: strange(r), Line: r.Uint32N(3)}
					for range r.IntN(3) {
						f.Inlines = append(f.Inlines, V5Inline{Function: strange(r), File: strange(r), Line: r.Uint32N(3)})
					}
					res.Stacks[k][n] = f
				}
			}
			res.FoundModules = map[string]*bool{strange(r): &found, strange(r): nil}
			if r.IntN(2) == 0 {
				res.ModuleErrors = map[string][]V5Error{strange(r): {{strange(r), strange(r)}}}
				res.ModuleSources = map[string]string{strange(r): strange(r)}
				res.ModuleNotes = map[string][]string{strange(r): {strange(r)}}
			}
		}
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSuffix(text.String(), "\n")
		got, err := a.AppendJSON([]byte("before"))
		if err != nil || string(got) != "before"+want {
			t.Fatalf("error %v, got\n%s, want\nbefore%s", err, got, want)
		}
	}
}
