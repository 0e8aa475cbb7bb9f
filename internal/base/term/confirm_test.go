package term_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/term"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{
		"y\n": true, "YES\r\n": true, " yes": true,
		"": false, "\n": false, "n\n": false, "yet\n": false, "no\ny\n": false,
	} {
		var out strings.Builder
		got, err := term.Confirm(t.Context(), strings.NewReader(answer), &out, "Go?")
		if got != want || err != nil || out.String() != "Go? [y/N] " {
			t.Errorf("answer %q to %q: %v, %v; want %v", answer, out.String(), got, err, want)
		}
	}
}

// TestConfirmInterrupted: a question that nobody answers ends with its context.
func TestConfirmInterrupted(t *testing.T) {
	t.Parallel()
	in, answer := io.Pipe()
	t.Cleanup(func() { _ = answer.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if yes, err := term.Confirm(ctx, in, io.Discard, "Go?"); yes || !errors.Is(err, context.Canceled) {
		t.Errorf("without an answer: %v, %v; want no, and the error of the context", yes, err)
	}
}
