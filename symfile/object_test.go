package symfile

import "testing"

func TestIsDevice(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"com": false, "com10": false, "com1": true, "COM0.txt": true, "console.dll": false, "conin$": true, "nul": true, "NUL .pdb": true, "null.pdb": false, "lptx": false, "": false,
	} {
		if got := IsDevice(name); got != want {
			t.Errorf("IsDevice(%q) = %v, want %v", name, got, want)
		}
	}
}
