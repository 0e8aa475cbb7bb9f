package scan

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// rpmField is a tag of a header in the making.
type rpmField struct {
	tag   uint32
	count int
	data  string
}

func makeRPMHeader(fields ...rpmField) string {
	be := binary.BigEndian
	var table, data []byte
	for _, f := range fields {
		for _, v := range []uint32{f.tag, 0, uint32(len(data)), uint32(f.count)} {
			table = be.AppendUint32(table, v)
		}
		data = append(data, f.data...)
	}
	intro := []byte("\x8e\xad\xe8\x01\x00\x00\x00\x00")
	intro = be.AppendUint32(intro, uint32(len(fields)))
	intro = be.AppendUint32(intro, uint32(len(data)))
	return string(intro) + string(table) + string(data)
}

func numbers[T any](vs ...T) string {
	b, err := binary.Append(nil, binary.BigEndian, vs)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return string(b)
}

func makeRPM(payload string, fields ...rpmField) string {
	sig := makeRPMHeader(rpmField{1000, 1, "odd"})
	sig += strings.Repeat("\x00", -len(sig)&7)
	return "\xed\xab\xee\xdb" + strings.Repeat("\x00", 92) + sig + makeRPMHeader(fields...) + payload
}

// largeRPM has a payload in the form for files of 4 GiB and more: a folder,
// a file, the same again as a hard link, and a symbolic link.
func largeRPM() (payload string, fields []rpmField) {
	add := func(n int, data string) {
		payload += fmt.Sprintf("07070X%08x\x00\x00", n) + data + strings.Repeat("\x00", -len(data)&3)
	}
	add(0, "")
	add(1, "")
	add(2, "debug")
	add(3, "a.so")
	payload += makeCPIO()
	fields = []rpmField{
		{rpmSizes, 4, numbers[uint64](4096, 5, 5, 4)},
		{rpmModes, 4, numbers[uint16](0x41ed, 0x81a4, 0x81a4, 0xa1ff)},
		{rpmTimes, 4, numbers[uint32](1, 2, 3, 4)},
		{rpmInodes, 4, numbers[uint32](1, 2, 2, 3)},
		{rpmDirIndexes, 4, numbers[uint32](0, 1, 1, 1)},
		{rpmBaseNames, 4, "lib\x00a.so\x00b.so\x00l.so\x00"},
		{rpmDirNames, 2, "/usr/\x00/usr/lib/\x00"},
	}
	return payload, fields
}

func TestLargeRPM(t *testing.T) {
	dir := t.TempDir()
	payload, fields := largeRPM()
	write(t, dir, "x.rpm", makeRPM(gz(t, payload), fields...))
	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), []string{"x.rpm!/usr/lib/b.so b.so=debug"})

	// Tables that lie.
	for i := range fields {
		for _, bad := range []rpmField{
			{fields[i].tag, fields[i].count + 1, fields[i].data},
			{fields[i].tag, 1 << 31, fields[i].data},
			{fields[i].tag, 0, ""},
			{fields[i].tag, 4, ""},
		} {
			broken := append([]rpmField{}, fields...)
			broken[i] = bad
			write(t, dir, "x.rpm", makeRPM(payload, broken...))
			for _, line := range walkAll(t, dir, []string{dir}, Options{}) {
				if !strings.HasPrefix(line, "x.rpm: ") && line != "x.rpm!/usr/lib/b.so b.so=debug" {
					t.Errorf("field %d as %+v: %s, want b.so or an error that names x.rpm", i, bad, line)
				}
			}
		}
	}
	for _, payload := range []string{"07070X0000000g\x00\x00", "07070Xffffffff\x00\x00", "07070X00000004\x00\x00", "07070X"} {
		write(t, dir, "x.rpm", makeRPM(payload, fields...))
		checkLines(t, walkAll(t, dir, []string{dir}, Options{}), []string{"x.rpm: " + string(ReasonDamaged)})
	}
	write(t, dir, "x.rpm", makeRPM("]\x00\x00\x80\x00 legacy lzma", fields...))
	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), []string{"x.rpm: " + string(ReasonUnsupported)})
}

// TestRPMSignatures: a file has the IMA signature that the package has of it, and none of
// other bytes.
func TestRPMSignatures(t *testing.T) {
	const rsa = "030204AABBCCDD0008"
	gone := strings.Repeat("ab", maxSignature/2+1)
	signed := func(signs ...string) string {
		return string(symtest.SignRPM(t, []byte(fixture(t, "sample-zstd.rpm")), signs...))
	}
	packed := makeRPM(gz(t, makeCPIO(entry{"./lib/a.so.gz", gz(t, "inner")}, entry{"./lib/b.so", "plain"})),
		rpmField{rpmModes, 2, numbers[uint16](0x81a4, 0x81a4)}, rpmField{rpmFlags, 2, numbers[uint32](0, 0)}, rpmField{rpmDirIndexes, 2, numbers[uint32](0, 0)},
		rpmField{rpmBaseNames, 2, "a.so.gz\x00b.so\x00"}, rpmField{rpmDirNames, 1, "/lib/\x00"})
	for name, c := range map[string]struct {
		rpm  string
		want map[string]string
	}{
		// The files are lib, lib/debug, lib/debug/big.debug, lib/hello.so, lib/hello2.so
		// and lib/link.so.
		"each":                 {signed("", "", rsa, "0301", "0302", ""), map[string]string{"big.debug": strings.ToLower(rsa), "hello2.so": "0302"}},
		"damaged":              {signed("", "", "03020", "0301", "xyz", ""), nil},
		"too long":             {signed("", "", gone, "", "0302", ""), map[string]string{"hello2.so": "0302"}},
		"too few":              {signed("", "", rsa, "0301"), nil},
		"too many":             {signed("", "", rsa, "0301", "0302", "", ""), nil},
		"none":                 {fixture(t, "sample-zstd.rpm"), nil},
		"of a compressed file": {string(symtest.SignRPM(t, []byte(packed), "0301", "0302")), map[string]string{"b.so": "0302"}},
	} {
		dir := t.TempDir()
		path := write(t, dir, "x.rpm", c.rpm)
		got := map[string]string{}
		for f, err := range Walk(t.Context(), []string{path}, Options{}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if f.Signature != "" {
				got[f.Name] = f.Signature
			}
			f.Discard()
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: signatures %v, want %v", name, got, c.want)
		}
	}
}

func FuzzRPM(f *testing.F) {
	payload, fields := largeRPM()
	f.Add([]byte(makeRPM(payload, fields...)))
	f.Add([]byte(makeRPM(makeCPIO(entry{"a", "a"}))))
	f.Add([]byte(fixture(f, "sample-zstd.rpm")))
	const lead = 96
	f.Add(symtest.SignRPM(f, []byte(fixture(f, "sample-zstd.rpm")), "", "", "0301", "0302", "0303", "")[lead:])
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &stream{r: strings.NewReader(string(data))}
		for range 2 {
			files, err := rpmHeader(s, true)
			if err != nil {
				break
			}
			if files != nil {
				_ = files.regular()
				for i := range uint64(len(files.bases)) + 1 {
					_, _ = files.member(i)
				}
			}
		}
		s = &stream{r: strings.NewReader(string(data))}
		if signs, err := rpmHeader(s, false); err == nil && s.skipTo((s.pos+7)&^7) == nil {
			if files, err := rpmHeader(s, true); err == nil {
				for name, text := range files.signatures(signs) {
					if text == "" || len(text) > maxSignature {
						t.Fatalf("%s has a signature of %d digits, want 1 to %d", name, len(text), maxSignature)
					}
				}
			}
		}
		fuzzWalk(t, "\xed\xab\xee\xdb"+strings.Repeat("\x00", 92)+string(data))
	})
}

func FuzzAR(f *testing.F) {
	f.Add([]byte(makeAr(entry{"debian-binary", "2.0\n"}, entry{"data.tar", "x"})))
	f.Add([]byte(fixture(f, "sample-gzip.deb")))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := newArReader(&stream{r: strings.NewReader(string(data))})
		var last int64
		for err == nil {
			var m *arMember
			if m, err = a.header(); err == nil && (m.size < 0 || a.next <= last) {
				t.Fatalf("size %d, next header at %d; want it behind %d", m.size, a.next, last)
			}
			last = a.next
		}
		if last > int64(len(data))+1<<48 {
			t.Fatalf("got error %v, %d, length %d; want at most int64(len(data)) + 1<<48", err, last, len(data))
		}
	})
}

func FuzzCPIO(f *testing.F) {
	f.Add([]byte(makeCPIO(entry{"a", "a"}, entry{"b/c", "cc"})))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &cpioReader{s: &stream{r: strings.NewReader(string(data))}}
		var err error
		for last := int64(-1); err == nil; {
			if c.next <= last {
				t.Fatalf("next header at %d, want it behind %d", c.next, last)
			}
			last = c.next
			_, err = c.header()
		}
	})
}
