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

// encoded returns a value as an Encoder of encoding/json without escapes for HTML writes it.
func encoded(t testing.TB, v any) string {
	t.Helper()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// TestV5JSON compares what is written with what encoding/json writes.
func TestV5JSON(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	found := true
	for range 2000 {
		if s := strange(r); string(appendText(nil, s)) != encoded(t, s) {
			t.Fatalf("%q is written as %s, want %s", s, appendText(nil, s), encoded(t, s))
		}
		res := V5Result{FoundModules: map[string]*bool{strange(r): &found, strange(r): nil}}
		if r.IntN(2) == 0 {
			res.ModuleErrors = map[string][]V5Error{strange(r): {{strange(r), strange(r)}}}
			res.ModuleSources = map[string]string{strange(r): strange(r)}
			res.ModuleNotes = map[string][]string{strange(r): {strange(r)}}
		}
		got, err := res.appendModules([]byte(`{"stacks":null`))
		if want := encoded(t, res); err != nil || string(got) != want {
			t.Fatalf("error %v, got\n%s, want\n%s", err, got, want)
		}
	}
}
