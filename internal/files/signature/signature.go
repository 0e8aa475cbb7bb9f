// Package signature reads who has signed a program: the subject of the certificate of an Authenticode signature of a PE
// image, and the team and the certificate of a code signature of a Mach-O image. It reads only what the signature says:
// it checks neither the signature nor the certificate.
//
// Sources: "Windows Authenticode Portable Executable Signature Format", RFC 2315 (PKCS #7) and RFC 5652, and
// kern/cs_blobs.h of Apple's XNU.
package signature

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrFormat means that a signature is damaged.
var ErrFormat = errors.New("the signature is damaged")

// Limits of a signature.
const (
	maxSignature = 16 << 20 // bytes
	maxCommands  = 16 << 20 // bytes of the load commands of a Mach-O image
	maxSigners   = 64
	maxName      = 1024 // bytes
	maxSubject   = 64 << 10
)

// Signer is who has made a signature: the names of the one subject. At least one is not empty.
type Signer struct {
	Name         string // common name
	Organization string
	Team         string // of Apple's programs for developers
}

// String returns the name for people.
func (s Signer) String() string {
	for _, name := range []string{s.Organization, s.Name, s.Team} {
		if name != "" {
			return name
		}
	}
	return ""
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// bytesAt returns n bytes of r, which has size bytes.
func bytesAt(r io.ReaderAt, size, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > size || n > size-off {
		return nil, damaged("it lies outside of the file")
	}
	b := make([]byte, n)
	m, err := r.ReadAt(b, off)
	if int64(m) == n {
		return b, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil, damaged("cut off")
	}
	return nil, err
}

// Of returns the signers of a PE image or of a thin Mach-O image of size bytes; nil: it is not signed, or is of
// another kind. An image may have several signatures. Errors are ErrFormat, or those of r.
func Of(r io.ReaderAt, size int64) ([]Signer, error) {
	head, err := bytesAt(r, size, 0, min(size, 64))
	if err != nil {
		return nil, err
	}
	switch {
	case len(head) < 64:
		return nil, nil
	case string(head[:2]) == "MZ":
		return portable(r, size, int64(binary.LittleEndian.Uint32(head[60:])))
	case binary.LittleEndian.Uint32(head)&^1 == 0xfeedface:
		return mach(r, size, head, binary.LittleEndian)
	case binary.BigEndian.Uint32(head)&^1 == 0xfeedface:
		return mach(r, size, head, binary.BigEndian)
	}
	return nil, nil
}

// portable reads the table of certificates of a PE image, whose header is at off.
func portable(r io.ReaderAt, size, off int64) ([]Signer, error) {
	const header, security = 24, 4
	le := binary.LittleEndian
	h, err := bytesAt(r, size, off, header)
	if err != nil || string(h[:4]) != "PE\x00\x00" {
		return nil, nil //nolint:nilerr // a program of DOS
	}
	opt, err := bytesAt(r, size, off+header, int64(le.Uint16(h[20:])))
	if err != nil {
		return nil, err
	}
	at := 96 // the directories
	if len(opt) >= 2 && le.Uint16(opt) == 0x20b {
		at = 112
	}
	if len(opt) < at+8*(security+1) || le.Uint32(opt[at-4:]) <= security {
		return nil, nil
	}
	from, n := int64(le.Uint32(opt[at+8*security:])), int64(le.Uint32(opt[at+8*security+4:]))
	if n == 0 {
		return nil, nil
	}
	if n > maxSignature {
		return nil, damaged("%d bytes", n)
	}
	table, err := bytesAt(r, size, from, n)
	if err != nil {
		return nil, err
	}
	var list []Signer
	for len(table) >= 8 {
		const signedData = 2
		k := int64(le.Uint32(table))
		if k < 8 || k > int64(len(table)) {
			return nil, damaged("a certificate of %d bytes", k)
		}
		if le.Uint16(table[6:]) == signedData {
			s, err := signers(table[8:k])
			if err != nil {
				return nil, err
			}
			list = append(list, s...)
		}
		table = table[min((k+7)&^7, int64(len(table))):]
	}
	return list, nil
}

// mach reads the code signature of a Mach-O image.
func mach(r io.ReaderAt, size int64, head []byte, order binary.ByteOrder) ([]Signer, error) {
	const signatureCommand = 0x1d
	at := int64(28 + 4*(order.Uint32(head)&1))
	n := int64(order.Uint32(head[20:]))
	if n > maxCommands {
		return nil, damaged("load commands of %d bytes", n)
	}
	p, err := bytesAt(r, size, at, n)
	if err != nil {
		return nil, err
	}
	for len(p) >= 8 {
		k := int64(order.Uint32(p[4:]))
		if k < 8 || k > int64(len(p)) {
			return nil, damaged("a load command of %d bytes", k)
		}
		if order.Uint32(p) == signatureCommand && k >= 16 {
			n := int64(order.Uint32(p[12:]))
			if n > maxSignature {
				return nil, damaged("%d bytes", n)
			}
			b, err := bytesAt(r, size, int64(order.Uint32(p[8:])), n)
			if err != nil {
				return nil, err
			}
			return superBlob(b)
		}
		p = p[k:]
	}
	return nil, nil
}

// superBlob reads a code signature: blobs with their kinds. All numbers are big-endian.
func superBlob(b []byte) ([]Signer, error) {
	const signature, codeDirectory, wrapper = 0xfade0cc0, 0xfade0c02, 0xfade0b01
	be := binary.BigEndian
	if len(b) < 12 || be.Uint32(b) != signature {
		return nil, damaged("no code signature")
	}
	team, left := "", int64(len(b))
	var list []Signer
	for i := range min(int64(be.Uint32(b[8:])), maxSigners) {
		if int64(len(b)) < 12+8*(i+1) {
			return nil, damaged("a list of blobs")
		}
		off := int64(be.Uint32(b[12+8*i+4:]))
		if off+8 > int64(len(b)) {
			return nil, damaged("a blob lies outside")
		}
		blob := b[off:]
		n := int64(be.Uint32(blob[4:]))
		if n < 8 || n > int64(len(blob)) {
			return nil, damaged("a blob of %d bytes", n)
		}
		if left -= n; left < 0 {
			return nil, damaged("its blobs overlap")
		}
		switch blob = blob[:n]; be.Uint32(blob) {
		case codeDirectory:
			const withTeam = 0x20200
			if n < 52 || be.Uint32(blob[8:]) < withTeam {
				continue
			}
			if at := int64(be.Uint32(blob[48:])); at > 0 && at < n {
				name, _, _ := bytes.Cut(blob[at:min(n, at+maxName)], []byte{0})
				team = string(name)
			}
		case wrapper:
			if n == 8 {
				continue // signed by nobody
			}
			s, err := signers(blob[8:])
			if err != nil {
				return nil, err
			}
			list = append(list, s...)
		}
	}
	for i := range list {
		list[i].Team = team
	}
	if len(list) == 0 && team != "" {
		list = []Signer{{Team: team}}
	}
	return list, nil
}

// The parts of PKCS #7 that are read: RFC 2315, sections 7 and 9.
type (
	contentInfo struct {
		Kind    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"explicit,optional,tag:0"`
	}
	signedData struct {
		Version      int
		Digests      asn1.RawValue
		Content      asn1.RawValue
		Certificates asn1.RawValue `asn1:"optional,tag:0"`
		Revocations  asn1.RawValue `asn1:"optional,tag:1"`
		Signers      asn1.RawValue
	}
	signerInfo struct {
		Version int
		Who     issuerAndSerial
	}
	issuerAndSerial struct{ Issuer, Serial asn1.RawValue }

	certificate     struct{ Body certificateBody }
	certificateBody struct {
		Version                                      int `asn1:"optional,explicit,default:0,tag:0"`
		Serial, Algorithm, Issuer, Validity, Subject asn1.RawValue
	}
)

var signedDataKind = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}

// signers returns the subjects of the certificates that signed a PKCS #7 message.
func signers(message []byte) ([]Signer, error) {
	var info contentInfo
	if _, err := asn1.Unmarshal(message, &info); err != nil || !info.Kind.Equal(signedDataKind) {
		return nil, damaged("no signed data: %v", err)
	}
	var data signedData
	if _, err := asn1.Unmarshal(info.Content.Bytes, &data); err != nil {
		return nil, damaged("signed data: %v", err)
	}
	var who []issuerAndSerial
	for rest := data.Signers.Bytes; len(rest) > 0 && len(who) < maxSigners; {
		var s signerInfo
		var err error
		if rest, err = asn1.Unmarshal(rest, &s); err != nil {
			return nil, damaged("a signer: %v", err)
		}
		who = append(who, s.Who)
	}
	names := make([]Signer, len(who)) // in the order of the signers
	for rest := data.Certificates.Bytes; len(rest) > 0; {
		var raw asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &raw); err != nil {
			return nil, damaged("a certificate: %v", err)
		}
		var c certificate
		if _, err := asn1.Unmarshal(raw.FullBytes, &c); err != nil {
			continue // an attribute certificate, or another kind
		}
		for i, w := range who {
			b := &c.Body
			if names[i] == (Signer{}) && bytes.Equal(b.Serial.FullBytes, w.Serial.FullBytes) && bytes.Equal(b.Issuer.FullBytes, w.Issuer.FullBytes) {
				names[i] = subject(b.Subject.FullBytes)
			}
		}
	}
	var list []Signer
	for _, s := range names {
		if s != (Signer{}) && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list, nil
}

// subject returns the names of a subject.
func subject(raw []byte) (s Signer) {
	var names pkix.RDNSequence
	if len(raw) > maxSubject {
		return s
	}
	if _, err := asn1.Unmarshal(raw, &names); err != nil {
		return s
	}
	for _, set := range names {
		for _, x := range set {
			text, ok := x.Value.(string)
			if !ok || len(text) > maxName {
				continue
			}
			switch x.Type.String() {
			case "2.5.4.3":
				s.Name = text
			case "2.5.4.10":
				s.Organization = text
			}
		}
	}
	return s
}
