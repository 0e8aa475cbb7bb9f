package symtest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// RPM makes a package of files, by their paths without a slash in front, with rpmbuild.
// payload is how that packs them, as "w3.zstdio".
func RPM(t testing.TB, name, payload string, files map[string][]byte) []byte {
	t.Helper()
	tool := Tool(t, "rpmbuild")
	top := t.TempDir()
	var install, list strings.Builder
	for path, body := range files {
		from := filepath.Join(top, "in", filepath.FromSlash(path))
		Put(t, filepath.Join(top, "in"), path, body)
		fmt.Fprintf(&install, "install -D -m 644 %s %%{buildroot}/%s\n", from, path)
		fmt.Fprintf(&list, "/%s\n", path)
	}
	spec := "Name: " + name + "\nVersion: 1\nRelease: 1\nSummary: s\nLicense: l\nAutoReqProv: " +
		"no\n%description\nd\n%install\n" + install.String() + "%files\n" + list.String()
	Put(t, top, "p.spec", []byte(spec))
	cmd := exec.CommandContext(t.Context(), tool, "-bb", "--target", "x86_64", "-D", "_topdir "+top,
		"-D", "_binary_payload "+payload, "-D", "debug_package %{nil}", "-D", "__os_install_post %{nil}",
		"-D", "__spec_install_post %{___build_post}", "-D", "_build_id_links none", filepath.Join(top, "p.spec"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rpmbuild: %v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(top, "RPMS", "*", "*.rpm"))
	if err != nil || len(found) != 1 {
		t.Fatalf("rpmbuild made %v, %v, want one package", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// SignRPM adds signatures of files to a package, in hex and in the order of its files, as
// "rpmsign --signfiles" does: the tags FILESIGNATURES and FILESIGNATURELENGTH of the header
// with signatures. The signature of the package itself is wrong afterwards.
func SignRPM(t testing.TB, rpm []byte, signatures ...string) []byte {
	t.Helper()
	const lead, intro, entry = 96, 16, 16
	be := binary.BigEndian
	if len(rpm) < lead+intro {
		t.Fatalf("a package of %d bytes, want a real one", len(rpm))
	}
	tags, size := int(be.Uint32(rpm[lead+8:])), int(be.Uint32(rpm[lead+12:]))
	table := lead + intro
	data := table + tags*entry
	rest := data + (size+7)&^7
	if len(rpm) < rest || string(rpm[lead:lead+3]) != "\x8e\xad\xe8" {
		t.Fatal("the package has no header with signatures")
	}
	values := slices.Clone(rpm[data : data+size])
	for len(values)%4 != 0 {
		values = append(values, 0)
	}
	entries := slices.Clone(rpm[table:data])
	add := func(tag, kind, count uint32, value []byte) {
		for _, v := range []uint32{tag, kind, uint32(len(values)), count} {
			entries = be.AppendUint32(entries, v)
		}
		values = append(values, value...)
	}
	const number, list = 4, 8 // types of values
	longest := 0
	for _, s := range signatures {
		longest = max(longest, len(s)/2)
	}
	add(275, number, 1, be.AppendUint32(nil, uint32(longest)))
	add(274, list, uint32(len(signatures)), []byte(strings.Join(signatures, "\x00")+"\x00"))
	out := slices.Clone(rpm[:table])
	be.PutUint32(out[lead+8:], uint32(len(entries)/entry))
	be.PutUint32(out[lead+12:], uint32(len(values)))
	out = append(append(out, entries...), values...)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	return append(out, rpm[rest:]...)
}
