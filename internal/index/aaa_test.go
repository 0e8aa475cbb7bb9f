package index

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/index/pgtest"
)

var pgServer *pgtest.Server

func address(t testing.TB) string {
	if os.Getenv("TRYPG") != "" {
		return pgServer.Database(t)
	}
	return filepath.Join(t.TempDir(), "index.db")
}

func TestAAA(t *testing.T) {
	if os.Getenv("TRYPG") != "" {
		b := &keep{T: t}
		pgServer = pgtest.New(b)
	}
}

type keep struct{ *testing.T }

func (k *keep) Cleanup(func())  {}
func (k *keep) TempDir() string { d, _ := os.MkdirTemp("", "pgx"); return d }
