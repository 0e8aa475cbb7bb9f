package debugid

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSpellings(t *testing.T) {
	const u = "dfb8e43a-f242-3d73-a453-aeb6a777ef75"
	for _, c := range []struct {
		id                ID
		breakpad, display string
	}{
		{mustParse(t, u+"-a"), "DFB8E43AF2423D73A453AEB6A777EF75a", u + "-a"},
		{mustParse(t, u), "DFB8E43AF2423D73A453AEB6A777EF750", u},
		{mustParse(t, u+"-feedface"), "DFB8E43AF2423D73A453AEB6A777EF75feedface", u + "-feedface"},
		{PDB20(0x418E89C3, 1), "418E89C31", "418E89C3-1"},
		{PDB20(0x37A8F40E, 2), "37A8F40E2", "37A8F40E-2"},
		{PDB20(0x00000ABC, 0), "00000ABC0", "00000ABC"},
	} {
		if got := c.id.Breakpad(); got != c.breakpad {
			t.Errorf("Breakpad = %q, want %q", got, c.breakpad)
		}
		if got := c.id.String(); got != c.display {
			t.Errorf("String = %q, want %q", got, c.display)
		}
		for _, s := range []string{c.breakpad, strings.ToLower(c.breakpad), strings.ToUpper(c.breakpad)} {
			if got, err := ParseBreakpad(s); err != nil || got != c.id {
				t.Errorf("ParseBreakpad(%q) = %+v, %v; want %+v", s, got, err, c.id)
			}
		}
	}
}

func mustParse(t *testing.T, s string) ID {
	t.Helper()
	id, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestParseDumpbin: an id as Microsoft's dumpbin prints it, with a decimal age.
func TestParseDumpbin(t *testing.T) {
	const guid = "34D6745D-4C3F-4339-86E3-CF1FCD468701"
	bare := strings.ReplaceAll(guid, "-", "")
	for s, want := range map[string]string{
		"{" + guid + "}, 1": bare + "1", guid + ",1": bare + "1", " {" + strings.ToLower(guid) + "} ,  10 ": bare + "a", "{" + bare + "}, 4294967295": bare + "ffffffff", "{" + guid + "}, 0": bare + "0",
	} {
		if id, err := Parse(s); err != nil || id.Breakpad() != want {
			t.Errorf("Parse(%q) = %s, %v; want %s", s, id.Breakpad(), err, want)
		}
	}
	for _, s := range []string{"{" + guid + ", 1", guid + "}, 1", "{" + guid + "}, a", "{" + guid + "}, 4294967296", "{" + guid + "}, -1", "{" + guid + "},", "{}, 1", ", 1", "{" + guid + "}, 1, x"} {
		if id, err := Parse(s); !errors.Is(err, ErrSyntax) {
			t.Errorf("Parse(%q) = %s, %v; want ErrSyntax", s, id.Breakpad(), err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{"", "x", "DFB8E43AF2423D73A453AEB6A777EF7", "dfb8e43a-f242-3d73-a453-aeb6a777ef75", "DFB8E43AF2423D73A453AEB6A777EF75",
		"DFB8E43AF2423D73A453AEB6A777EF75aZ", "DFB8E43AF2423D73A453AEB6A777EF75123456789", "418E89C3", "418E89C3-1"} {
		if id, err := ParseBreakpad(s); !errors.Is(err, ErrSyntax) {
			t.Errorf("ParseBreakpad(%q) = %+v, %v; want ErrSyntax", s, id, err)
		}
	}
	for _, s := range []string{"abc", "ab0", "zz", "", strings.Repeat("ab", 65)} {
		if b, err := ParseBuildID(s); err == nil {
			t.Errorf("ParseBuildID(%q) = %q, want an error", s, b)
		}
	}
}

func TestGUIDByteOrder(t *testing.T) {
	raw := [16]byte(unhex(t, "98d1efe86ef8fe459ddbe11382b5d1c9"))
	g := FromMicrosoft(raw)
	if g.String() != "e8efd198-f86e-45fe-9ddb-e11382b5d1c9" || g.Microsoft() != raw {
		t.Errorf(`FromMicrosoft: %s, want String() "e8efd198-f86e-45fe-9ddb-e11382b5d1c9", Microsoft() %v`, g, raw)
	}
	g, _ = ParseGUID("67e9247c-814e-392b-a027-dbde6748fcbf")
	if g.LLDB() != "67E9/247C/814E/392B/A027/DBDE6748FCBF" {
		t.Errorf(`got %q, want "67E9/247C/814E/392B/A027/DBDE6748FCBF"`, g.LLDB())
	}
}

// TestBuildIDs holds the debug ids that Breakpad and Sentry derive.
func TestBuildIDs(t *testing.T) {
	for _, c := range []struct {
		build  string
		little bool
		debug  string
	}{
		{"f1c3bcc0279865fe3058404b2831d9e64135386c", true, "c0bcc3f1-9827-fe65-3058-404b2831d9e6"},
		{"b931c4fbd186e551bb617b3807d594b9064f5cac", true, "fbc431b9-86d1-51e5-bb61-7b3807d594b9"},
		{"dfb85de42daffd09640c8fe377d572de3e168920", true, "e45db8df-af2d-09fd-640c-8fe377d572de"},
		{"69389d485a9793dbe873f0ea2c93e02efaa9aa3d", true, "489d3869-975a-db93-e873-f0ea2c93e02e"},
		{"180a373d6afbabf0eb1f09be1bc45bd796a71085", true, "3d370a18-fb6a-f0ab-eb1f-09be1bc45bd7"},
		{"180a373d6afbabf0eb1f09be1bc45bd796a71085", false, "180a373d-6afb-abf0-eb1f-09be1bc45bd7"},
		{"001ba81f23966cf77e40bcbb0701cd34", true, "1fa81b00-9623-f76c-7e40-bcbb0701cd34"},
		{"0011223344556677", true, "33221100-5544-7766-0000-000000000000"},
		{"00010203", true, "03020100-0000-0000-0000-000000000000"},
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", true, "03020100-0504-0706-0809-0a0b0c0d0e0f"},
	} {
		b, err := ParseBuildID(strings.ToUpper(c.build))
		if err != nil || string(b) != c.build {
			t.Errorf("%s: ParseBuildID: %q, error %v; want %q", c.build, b, err, c.build)
		}
		if got := b.DebugID(c.little).String(); got != c.debug {
			t.Errorf("%s: %s, want %s", c.build, got, c.debug)
		}
	}
	if got := BuildID("001ba81f23966cf77e40bcbb0701cd34").Padded(); got != "001ba81f23966cf77e40bcbb0701cd3400000000" {
		t.Errorf(`Padded: %q, want "001ba81f23966cf77e40bcbb0701cd3400000000"`, got)
	}
}

// TestPEKeys are keys of real stores: stamps keep their zeros, sizes do not.
func TestPEKeys(t *testing.T) {
	for _, c := range []struct {
		ts, size uint32
		key      string
	}{
		{0x5A0BC0C6, 0xC83000, "5A0BC0C6c83000"}, {0x5617D4FE, 32768, "5617D4FE8000"}, {0x04A30CF0, 0x800, "04A30CF0800"},
		{0xE914506E, 0xA000, "E914506Ea000"}, {0x542D574E, 0xC2000, "542D574Ec2000"}, {0xDD52998F, 0x8000, "DD52998F8000"},
		{0x00E4915E, 0xAE000, "00E4915Eae000"}, {0, 0x2ab000, "000000002ab000"},
	} {
		p := PE{c.ts, c.size}
		if p.String() != c.key {
			t.Errorf("%s, want %s", p, c.key)
		}
		for _, s := range []string{c.key, strings.ToLower(c.key), strings.ToUpper(c.key)} {
			if got, err := ParsePE(s); err != nil || got != p {
				t.Errorf("ParsePE(%q) = %v, %v; want %v", s, got, err, p)
			}
		}
	}
	if p, err := ParsePE("542D5742000f2000"); err != nil || p.String() != "542D5742f2000" {
		t.Errorf("a padded size: %v %v, want 542D5742f2000", p, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"dfb8e43a-f242-3d73-a453-aeb6a777ef75-a", "418E89C3-1", "DFB8E43AF2423D73A453AEB6A777EF750"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Parse(s)
		if err != nil || id.IsZero() {
			return
		}
		if back, err := Parse(id.String()); err != nil || back != id {
			t.Errorf("%q: %+v prints %q, which reads as %+v, %v, want the same id", s, id, id.String(), back, err)
		}
		if back, err := ParseBreakpad(id.Breakpad()); err != nil || back != id {
			t.Errorf("%q: %+v prints %q, which reads as %+v, %v, want the same id", s, id, id.Breakpad(), back, err)
		}
	})
}
