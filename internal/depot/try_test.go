package depot

import (
	"bytes"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/stage"
)

// TestTryOutranksNothing: a file of a try build is an answer only if no other
// transaction has one, however the order in which they came.
func TestTryOutranksNothing(t *testing.T) {
	d, c := newDepot(t)
	regular, try := symFile(symID, 300), symFile(symID, 900)
	want := func(what string, content []byte) {
		t.Helper()
		_, got, err := get(t, d, Scope{}, symPath)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: a lookup answers %d bytes, error %v; want the %d bytes", what, len(got), err, len(content))
		}
	}
	push := func(class string, content []byte) int64 {
		c.advance(time.Second)
		return pushBuild(t, d, stage.Labels{Product: "Firefox", Class: class}, []file{{"app.sym", content}})
	}
	push("try", try)
	want("only a try build", try)
	first := push("", regular)
	want("a regular build after a try build", regular)
	push("try", try)
	want("a try build after a regular build", regular)
	push("try", regular)
	want("a try build with the bytes of the regular build", regular)
	if _, err := d.Retention.Remove(t.Context(), first, ""); err != nil {
		t.Fatal(err)
	}
	push("nightly", try)
	want("a build of another class with the bytes of a try build", try)
}
