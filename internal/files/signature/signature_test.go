package signature_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/signature"
)

// message makes a PKCS #7 message that certificates with these subjects are in; the last one has signed.
func message(t testing.TB, subjects ...pkix.Name) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	var last *x509.Certificate
	for i, s := range subjects {
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: s, NotAfter: time.Unix(2000000000, 0)}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, der...)
		if last, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	type id struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	type signer struct {
		Version int
		Who     id
		Rest    asn1.RawValue
	}
	set := asn1.RawValue{Tag: asn1.TagSet, IsCompound: true}
	type data struct {
		Version      int
		Digests      asn1.RawValue
		Content      asn1.RawValue
		Certificates asn1.RawValue
		Signers      []signer `asn1:"set"`
	}
	marshal := func(v any) []byte {
		b, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	body := marshal(data{
		1, set, asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true}, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: all},
		[]signer{{1, id{asn1.RawValue{FullBytes: last.RawIssuer}, last.SerialNumber}, asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true}}},
	})
	return marshal(struct {
		Kind    asn1.ObjectIdentifier
		Content asn1.RawValue
	}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: body}})
}

// signed appends messages as the table of certificates to a PE image.
func signed(image []byte, messages ...[]byte) []byte {
	le := binary.LittleEndian
	image = bytes.Clone(image)
	image = append(image, make([]byte, -len(image)&7)...)
	start := len(image)
	for _, m := range messages {
		n := 8 + len(m)
		image = le.AppendUint32(image, uint32(n))
		image = append(image, 0, 2, 2, 0)
		image = append(append(image, m...), make([]byte, -n&7)...)
	}
	opt := int(le.Uint32(image[60:])) + 24
	dirs := opt + 96
	if le.Uint16(image[opt:]) == 0x20b {
		dirs += 16
	}
	le.PutUint32(image[dirs+32:], uint32(start))
	le.PutUint32(image[dirs+36:], uint32(len(image)-start))
	return image
}

func of(t testing.TB, b []byte) []signature.Signer {
	t.Helper()
	list, err := signature.Of(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var (
	authority = pkix.Name{CommonName: "Authority"}
	company   = pkix.Name{CommonName: "Example Tools", Organization: []string{"Example Ltd."}}
	second    = pkix.Name{CommonName: "Second"}
)

// TestPE: the certificate that signed counts, not the others in the message.
func TestPE(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pdb/hello-x64.exe", "pdb/hello-x86.exe"} {
		image := symtest.Testdata(t, name)
		if list := of(t, image); list != nil {
			t.Errorf("%s: signed by %v, want nobody", name, list)
		}
		want := []signature.Signer{{Name: "Example Tools", Organization: "Example Ltd."}, {Name: "Second"}}
		if list := of(t, signed(image, message(t, authority, company), message(t, second))); !slices.Equal(list, want) {
			t.Errorf("%s: signed by %+v, want %+v", name, list, want)
		}
	}
	if s := (signature.Signer{Name: "n", Team: "t"}).String(); s != "n" {
		t.Errorf("the name is %q, want the common name", s)
	}
	for _, name := range []string{"elf/prog-sha1", "macho/app-fat", "README.md", "wasm/w-sha1.wasm"} {
		if list := of(t, symtest.Testdata(t, name)); list != nil {
			t.Errorf("%s: signed by %v, want nobody", name, list)
		}
	}
	broken := signed(symtest.Testdata(t, "pdb/hello-x64.exe"), message(t, company))
	broken[len(broken)-400] ^= 0xff
	if _, err := signature.Of(bytes.NewReader(broken[:len(broken)-100]), int64(len(broken)-100)); !errors.Is(err, signature.ErrFormat) {
		t.Errorf("a signature that is cut off: %v, want ErrFormat", err)
	}
}

// machSigned makes a Mach-O image that has nothing but a code signature.
func machSigned(team string, message []byte) []byte {
	be, le := binary.BigEndian, binary.LittleEndian
	blob := func(magic uint32, body []byte) []byte {
		return append(be.AppendUint32(be.AppendUint32(nil, magic), uint32(8+len(body))), body...)
	}
	dir := make([]byte, 44)
	be.PutUint32(dir, 0x20200)
	if team != "" {
		be.PutUint32(dir[40:], 52)
		dir = append(dir, team+"\x00"...)
	}
	code, cms := blob(0xfade0c02, dir), blob(0xfade0b01, message)
	index := be.AppendUint32(nil, 2)
	for _, n := range []uint32{0, 28, 0x10000, 28 + uint32(len(code))} {
		index = be.AppendUint32(index, n)
	}
	super := blob(0xfade0cc0, slices.Concat(index, code, cms))
	var b []byte
	for _, n := range []uint32{0xfeedfacf, 0x0100000c, 0, 2, 1, 16, 0, 0, 0x1d, 16, 64, uint32(len(super))} {
		b = le.AppendUint32(b, n)
	}
	b = append(b, make([]byte, 64-len(b))...)
	return append(b, super...)
}

// TestMachO: the team, and the certificate; a signature of nobody is none.
func TestMachO(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		team    string
		message []byte
		want    []signature.Signer
	}{
		{"ABCDE12345", message(t, authority, company), []signature.Signer{{"Example Tools", "Example Ltd.", "ABCDE12345"}}},
		{"ABCDE12345", nil, []signature.Signer{{Team: "ABCDE12345"}}},
		{"", message(t, company), []signature.Signer{{Name: "Example Tools", Organization: "Example Ltd."}}},
		{"", nil, nil},
	} {
		if list := of(t, machSigned(c.team, c.message)); !slices.Equal(list, c.want) {
			t.Errorf("signed by %+v, want %+v", list, c.want)
		}
	}
}

// TestBounds: many signers and many certificates are not compared all with all, and blobs of one place are not read many
// times.
func TestBounds(t *testing.T) {
	seq := func(tag byte, parts ...[]byte) []byte {
		b, err := asn1.Marshal(asn1.RawValue{Class: int(tag >> 6), Tag: int(tag & 31), IsCompound: true, Bytes: bytes.Join(parts, nil)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, empty := []byte{2, 1, 1}, []byte{0x30, 0}
	signers := bytes.Repeat(seq(0x30, one, seq(0x30, empty, one)), 2000)
	certificates := bytes.Repeat(seq(0x30, seq(0x30, []byte{2, 1, 2}, empty, empty, empty, empty)), 2000)
	data := seq(0x30, one, seq(0x31), empty, seq(0xa0, certificates), seq(0x31, signers))
	kind := []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list := of(t, signed(symtest.Testdata(t, "pdb/hello-x64.exe"), seq(0x30, kind, seq(0xa0, data))))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 || list != nil {
		t.Errorf("%d bytes are taken for 2000 signers and certificates, and %v found; want at most 16 MiB, and nobody", n, list)
	}

	b := machSigned("ABCDE12345", message(t, company))
	super := b[64:]
	copy(super[16:20], super[24:28]) // both blobs are the message
	if list, err := signature.Of(bytes.NewReader(b), int64(len(b))); !errors.Is(err, signature.ErrFormat) {
		t.Errorf("two blobs of one place are signed by %v, error %v; want damaged", list, err)
	}
}

// TestMaterial compares the signers of public programs with those that osslsigncode prints.
func TestMaterial(t *testing.T) {
	t.Parallel()
	judge := symtest.Judge(t, "osslsigncode")
	if judge == "" {
		t.Skip("needs osslsigncode (its Debian package)")
	}
	n := 0
	err := filepath.WalkDir(symtest.Material(t), func(path string, e fs.DirEntry, err error) error {
		if ext := strings.ToLower(filepath.Ext(path)); err != nil || e.IsDir() || ext != ".dll" && ext != ".exe" && ext != ".node" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		list, err := signature.Of(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if !bytes.HasPrefix(b, []byte("MZ")) {
			return nil
		}
		out, _ := exec.CommandContext(t.Context(), judge, "verify", path).CombinedOutput()
		if len(list) == 0 != bytes.Contains(out, []byte("No signature found")) && !bytes.Contains(out, []byte("Unrecognized file type")) {
			t.Errorf("%s: signed by %v; osslsigncode: %s", path, list, out)
		}
		for _, s := range list {
			n++
			if !bytes.Contains(out, []byte("CN="+strings.ReplaceAll(s.Name, ",", "\\,"))) {
				t.Errorf("%s: signed by %v; osslsigncode: %s", path, s, out)
			}
		}
		return nil
	})
	t.Logf("%d signatures", n)
	if err != nil || n < 3 {
		t.Errorf("%d signatures, %v; want at least 3", n, err)
	}
}

func FuzzOf(f *testing.F) {
	f.Add(signed(symtest.Testdata(f, "pdb/hello-x64.exe"), message(f, authority, company)))
	f.Add(machSigned("ABCDE12345", message(f, company)))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := signature.Of(bytes.NewReader(data), int64(len(data)))
		if err != nil && !errors.Is(err, signature.ErrFormat) {
			t.Fatalf("error %v, want ErrFormat", err)
		}
		for _, s := range list {
			if s.String() == "" {
				t.Fatal("a signer without a name")
			}
		}
	})
}
