package symfile

import (
	"math/bits"
	"strings"
	"testing"
)

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

func TestRoleString(t *testing.T) {
	t.Parallel()
	for role, want := range map[Role]string{
		0: "none", Executable: "executable", Executable | Debug: "executable|debug", Relocatable: "relocatable", AnyRole: "any",
		Debug | 1<<15: "debug|0x8000", AnyRole | 1<<15: strings.Join(roleNames[:], "|") + "|0x8000",
	} {
		if got := role.String(); got != want {
			t.Errorf("role %#x: %q, want %q", uint16(role), got, want)
		}
	}
	if len(roleNames) != bits.OnesCount16(uint16(AnyRole)) {
		t.Errorf("%d names of %d roles", len(roleNames), bits.OnesCount16(uint16(AnyRole)))
	}
}
