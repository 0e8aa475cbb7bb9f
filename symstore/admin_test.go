package symstore

import (
	"path/filepath"
	"testing"
)

func TestReported(t *testing.T) {
	s := create(t, t.TempDir(), One, Options{})
	for _, c := range []struct {
		lastID, history     string
		byLastID, byHistory ID
	}{
		{"", "", 1, 1},
		{"0000000010", "0000000010,add,file,09/06/2016,10:34:19,\"p\",\"\",\"\",", 11, 11},
		{"x", "0000000002,del,0000000001\r\n\r\nx", 1, 3},
		{" 7\n", "", 8, 1},
	} {
		writeFile(t, filepath.Join(s.Dir(), lastIDFile), []byte(c.lastID))
		writeFile(t, filepath.Join(s.Dir(), historyFile), []byte(c.history))
		if l, h, err := s.Reported(); l != c.byLastID || h != c.byHistory || err != nil {
			t.Errorf("%q, %q: Reported: %d, %d, error %v; want %v, %v", c.lastID, c.history, l, h, err, c.byLastID, c.byHistory)
		}
	}
}
