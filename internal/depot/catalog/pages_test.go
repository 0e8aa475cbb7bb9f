package catalog

import (
	"errors"
	"io/fs"
	"log/slog"
	"testing"
)

// TestPages: the text of a place in a list is read by that list alone, by every process with
// the secret, and names no place before the first row.
func TestPages(t *testing.T) {
	t.Parallel()
	secret := func(string) ([]byte, error) { return make([]byte, 32), nil }
	p, other := NewPages(secret, slog.New(slog.DiscardHandler)), NewPages(secret, slog.New(slog.DiscardHandler))
	want := pageKey{Name: []byte("app.pdb"), Number: 7, ID: 3}
	text := p.seal(want, "objects")
	var got pageKey
	if err := other.open(&got, text, "objects"); err != nil || string(got.Name) != "app.pdb" || got.Number != 7 || got.ID != 3 {
		t.Errorf("another process reads %+v, %v; want %+v", got, err, want)
	}
	if again := other.seal(want, "objects"); again != text {
		t.Error("equal places have different texts")
	}
	for what, c := range map[string]struct{ text, list string }{
		"of another list":      {text, "files"},
		"cut off":              {text[:len(text)-4], "objects"},
		"no text of a place":   {"x", "objects"},
		"before the first row": {p.seal(pageKey{ID: -1}, "objects"), "objects"},
		"of a negative number": {p.seal(pageKey{Number: -1}, "objects"), "objects"},
	} {
		if err := p.open(new(pageKey), c.text, c.list); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("a text that is %s: %v, want fs.ErrInvalid", what, err)
		}
	}
}
