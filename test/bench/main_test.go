package bench

import (
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestMain makes the test binary the program when a test runs it.
func TestMain(m *testing.M) { commandtest.Main(m) }
