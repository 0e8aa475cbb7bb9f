package keyring

import "testing"

// TestSystem: the Credential Manager keeps secrets.
func TestSystem(t *testing.T) {
	keeps(t, System{})
	if s, without, err := Choose(t.Context(), "", t.TempDir()); err != nil || s.Name() != NameSystem || without != nil {
		t.Errorf("the store is %v, %v, %v; want that of the system", s, without, err)
	}
}
