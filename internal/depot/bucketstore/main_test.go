package bucketstore

import (
	"os"
	"testing"

	"github.com/symdepot/symdepot/internal/index/pgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}
