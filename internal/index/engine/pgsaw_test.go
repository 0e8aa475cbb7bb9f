package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestSawLate: what began before the database answered again, and fails later, does not say that it is away.
func TestSawLate(t *testing.T) {
	var log bytes.Buffer
	e := &postgres{log: slog.New(slog.NewTextHandler(&log, nil))}
	before := running()
	e.saw(running(), errNoAnswer)
	e.saw(running(), nil)
	e.saw(before, errNoAnswer)
	if e.down.Load() || strings.Count(log.String(), "not available") != 1 || strings.Count(log.String(), "answers again") != 1 {
		t.Errorf("away: %v, want that the database answers, and one line for each change:\n%s", e.down.Load(), log.String())
	}
	e.saw(running(), errNoAnswer)
	if !e.down.Load() {
		t.Error("a failure after the answer is not noticed")
	}
}
