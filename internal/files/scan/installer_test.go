package scan

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/files/udif/udiftest"
)

// makeCabinet makes a cabinet of files.
func makeCabinet(t testing.TB, entries ...entry) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.cab"))
	must(t, err)
	defer f.Close()
	var list []cab.Source
	for _, e := range entries {
		list = append(list, cab.Source{Name: e.name, Size: int64(len(e.data)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(e.data)), nil
		}})
	}
	_, err = cab.Create(f, list, cab.WriteOptions{Method: cab.MSZIP})
	must(t, err)
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return string(b)
}

// volumeImage is testdata/scan/hfsplus.iso.gz as a compressed disk image.
func volumeImage(t testing.TB) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(fixture(t, "hfsplus.iso.gz")))
	must(t, err)
	b, err := io.ReadAll(z)
	must(t, err)
	return string(udiftest.Image(udiftest.Zlib(b)))
}

// TestInstaller: the files of a package have the paths that they are installed to, wherever the package lies.
func TestInstaller(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.msi", fixture(t, "sample.msi"))
	write(t, dir, "b.zip", makeZip(t, 8, entry{"in.msi", fixture(t, "sample.msi")}))
	// A stream is not copied for what is rather a document.
	write(t, dir, "c.tgz", gz(t, makeTar(t, entry{"in.bin", fixture(t, "sample.msi")}, entry{"in.MSI", fixture(t, "sample.msi")})))
	write(t, dir, "d.msi", fixture(t, "sample.msi")[:3000])
	write(t, dir, "e.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and so on")
	files := func(prefix string) []string {
		return []string{
			prefix + "!/Hello Program/plugins and more/second.txt second.txt=hello, symbols\n",
			prefix + "!/Hello Program/plugins and more/hello-x64.exe hello-x64.exe=2560 bytes",
			prefix + "!/Hello Program/hello-x64.exe hello-x64.exe=2560 bytes",
			prefix + "!/Hello Program/File4/hello-x64.exe hello-x64.exe=hello, symbols\n",
			prefix + "!/Binary.Action Binary.Action=hello, symbols\n",
		}
	}
	want := slices.Concat(files("a.msi"), files("b.zip!/in.msi"), []string{"c.tgz!/in.bin in.bin=10752 bytes"}, files("c.tgz!/in.MSI"),
		[]string{"d.msi: damaged or cut short", "e.doc e.doc=\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and so on"})
	slices.Sort(want)
	got := walkAll(t, dir, []string{dir}, Options{})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestInstallerBeside: the cabinet of a package that lies beside it is read with it, if that is allowed, and not a
// second time.
func TestInstallerBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "x.msi", fixture(t, "outside.msi"))
	missing := []string{"x.msi: packed in a form that is not opened"}
	if got := walkAll(t, dir, []string{dir}, Options{Beside: true}); !slices.Equal(got, missing) {
		t.Errorf("without the cabinet: found %q, want %q", got, missing)
	}
	write(t, dir, "one.cab", makeCabinet(t, entry{"File1", "1"}, entry{"File2", "2"}, entry{"File3", "3"}, entry{"more", "4"}))
	want := []string{
		"x.msi!/Hello Program/hello-x64.exe hello-x64.exe=1", "x.msi!/Hello Program/plugins and more/second.txt second.txt=2",
		"x.msi!/Hello Program/plugins and more/hello-x64.exe hello-x64.exe=3", "x.msi!/more more=4",
	}
	if got := walkAll(t, dir, []string{dir}, Options{Beside: true}); !slices.Equal(got, want) {
		t.Errorf("with the cabinet: found %q, want %q", got, want)
	}
	want = []string{"one.cab!/File1 File1=1", "one.cab!/File2 File2=2", "one.cab!/File3 File3=3", "one.cab!/more more=4", missing[0]}
	if got := walkAll(t, dir, []string{dir}, Options{}); !slices.Equal(got, want) {
		t.Errorf("if the package may name no files: found %q, want %q", got, want)
	}
	write(t, dir, "p.zip", makeZip(t, 8, entry{"x.msi", fixture(t, "outside.msi")}))
	want = []string{"p.zip!/x.msi: packed in a form that is not opened"}
	if got := walkAll(t, dir, []string{filepath.Join(dir, "p.zip")}, Options{Beside: true}); !slices.Equal(got, want) {
		t.Errorf("in an archive: found %q, want %q", got, want)
	}
}

// TestDiskImage: HFS+ volumes are read, others are named.
func TestDiskImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	apfs := make([]byte, 8<<10)
	copy(apfs[32:], "NXSB")
	image := volumeImage(t)
	write(t, dir, "a.dmg", image)
	write(t, dir, "b.zip", makeZip(t, 8, entry{"in.DMG", image}))
	write(t, dir, "c.dmg", string(udiftest.Image(udiftest.Zlib(apfs))))
	write(t, dir, "d.dmg", "encrcdsa\x00\x00\x00\x02 and so on")
	write(t, dir, "e.dmg", "text")
	write(t, dir, "f.dmg", gz(t, makeTar(t, entry{"a", "aaa"}))) // not an image, only by its name
	write(t, dir, "g.dmg", string(udiftest.Image([]udiftest.Block{{Kind: 0x80000007, Sectors: 8, Data: []byte("bvx2")}})))
	write(t, dir, "h.dmg", image[:len(image)-512])
	write(t, dir, "i.pkg", "xar!\x00\x1c\x00\x01")
	files := func(prefix string) []string {
		return []string{
			prefix + "!/empty empty=", prefix + "!/numbers numbers=3893 bytes", prefix + "!/App.app/Contents/MacOS/App App=66336 bytes",
			prefix + "!/Fo\u0308lder name/one.txt one.txt=one\n", prefix + "!/Fo\u0308lder name/deep/two:colon two:colon=two\n",
		}
	}
	const unsupported = ": packed in a form that is not opened"
	want := slices.Concat(files("a.dmg"), files("b.zip!/in.DMG"), []string{"c.dmg" + unsupported, "d.dmg: encrypted", "e.dmg" + unsupported,
		"f.dmg" + unsupported, "g.dmg" + unsupported, "h.dmg" + unsupported, "i.pkg" + unsupported})
	if got := walkAll(t, dir, []string{dir}, Options{}); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := walkAll(t, dir, []string{filepath.Join(dir, "a.dmg")}, Options{MaxTotal: 1, MaxRatio: 4}); len(got) == 0 || got[len(got)-1] != "a.dmg: too big when unpacked" {
		t.Errorf("beyond the limit: %q, want that it is too big", got)
	}
}

// TestVisitImage: what a visit finds is what a walk finds.
func TestVisitImage(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{"a.dmg": volumeImage(t), "a.msi": fixture(t, "sample.msi")} {
		v := &names{}
		must(t, Visit(context.Background(), Source{Path: name, At: strings.NewReader(data), Size: int64(len(data))}, Options{}, v))
		if len(v.list) != 5 {
			t.Errorf("%s: a visit finds %q, want 5 files", name, v.list)
		}
	}
}

// names is a visitor that keeps the names of files.
type names struct{ list []string }

func (*names) Contents([]string) error   { return nil }
func (*names) Meet(*Entry) (bool, error) { return true, nil }
func (v *names) File(e *Entry) error     { v.list = append(v.list, e.Member); return nil }
func (v *names) Skipped(s *Skip)         { v.list = append(v.list, s.Error()) }
