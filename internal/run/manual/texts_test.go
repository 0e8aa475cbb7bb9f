package manual

import (
	"maps"
	"testing"
)

func TestTexts(t *testing.T) {
	got := Texts("one\n  A text\n  of two lines.\ntwo\n  Another.\n")
	if want := map[string]string{"one": "A text of two lines.", "two": "Another."}; !maps.Equal(got, want) {
		t.Errorf("texts %q, want %q", got, want)
	}
}
