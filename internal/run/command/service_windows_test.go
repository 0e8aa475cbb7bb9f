package command

import (
	"io"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/console"
)

// TestServiceRunByHand: the command of the service manager says who may run it.
func TestServiceRunByHand(t *testing.T) {
	var out strings.Builder
	if code := Run(t.Context(), []string{"service", "run"}, strings.NewReader(""), io.Discard, &out, console.Options{}); code != ExitFailed || !strings.Contains(out.String(), "symdepot service start") {
		t.Errorf("symdepot service run: exit code %d, %q; want %d and the command to use", code, out.String(), ExitFailed)
	}
}
