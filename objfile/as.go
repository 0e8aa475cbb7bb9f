package objfile

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// ForcedKinds are the possible values of Options.Kind. The content of a file
// does not show these kinds.
var ForcedKinds = []symfile.Kind{symfile.SHA1, symfile.JSMap, symfile.IL2CPP, symfile.ProGuard}

// ParseForced returns the forced kind of a given word. The empty word means
// symfile.KindUnknown, which forces nothing.
func ParseForced(word string) (symfile.Kind, error) {
	k := symfile.ParseKind(word)
	if word != "" && !slices.Contains(ForcedKinds, k) {
		return symfile.KindUnknown, fmt.Errorf("a file cannot be read as %q, only as one of %v", truncate.Text(word), ForcedKinds)
	}
	return k, nil
}

// identifyAs identifies a file as the kind that the caller has chosen.
func identifyAs(r *io.SectionReader, name string, opt Options) ([]Object, error) {
	o := Object{Object: symfile.Object{Kind: opt.Kind, Name: name}, Size: r.Size()}
	if o.Size == 0 && o.Kind != symfile.SHA1 {
		return nil, notSymbol("empty file")
	}
	var err error
	switch o.Kind {
	case symfile.SHA1:
		err = o.asSHA1(r)
	case symfile.JSMap:
		err = o.asJSMap(r, opt.Script)
	case symfile.IL2CPP:
		err = o.asIL2CPP(r, opt.ID)
	case symfile.ProGuard:
		err = o.asProGuard(r)
	default:
		err = fmt.Errorf("a file cannot be read as %q, only as one of %v", opt.Kind, ForcedKinds)
	}
	if err != nil {
		return nil, err
	}
	return []Object{o}, nil
}

// asSHA1 identifies any file, usually a source file, by the SHA-1 of its bytes.
func (o *Object) asSHA1(r io.Reader) error {
	h := sha1.New()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	o.Role, o.Hash = symfile.Other, hex.EncodeToString(h.Sum(nil))
	return nil
}

// asJSMap identifies a source map by the hash of its script (SSQP key
// conventions, JavaScript source maps).
func (o *Object) asJSMap(r io.Reader, script func() (io.ReadCloser, error)) error {
	if err := looksLikeJSON(r, "a JavaScript source map"); err != nil {
		return err
	}
	if script == nil {
		return errors.New("the id of a source map is the hash of its script: put the script beside it, named like the map without .map")
	}
	s, err := script()
	if err != nil {
		return fmt.Errorf("the source map's script: %w", err)
	}
	defer s.Close()
	h := sha256.New()
	if _, err := io.Copy(h, s); err != nil {
		return fmt.Errorf("the source map's script: %w", err)
	}
	o.Role, o.Hash = symfile.Other, hex.EncodeToString(h.Sum(nil))
	o.Features.Debug = true
	return nil
}

// asIL2CPP identifies a line mapping by the id of its module.
func (o *Object) asIL2CPP(r io.Reader, id string) error {
	if err := looksLikeJSON(r, "an il2cpp line mapping"); err != nil {
		return err
	}
	if id == "" {
		return errors.New("an il2cpp line mapping has no id of its own: give the debug id of its module")
	}
	d, err := debugid.Parse(id)
	if err != nil {
		return err
	}
	if d.IsZero() {
		return errors.New("the given debug id is zero, which means none")
	}
	o.Role, o.DebugID = symfile.IL2CPPMap, d
	o.Features.Debug = true
	return nil
}

// looksLikeJSON checks that the first character after white space begins a JSON
// value.
func looksLikeJSON(r io.Reader, what string) error {
	p := make([]byte, 512)
	n, err := io.ReadFull(r, p)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	p = bytes.TrimPrefix(p[:n], []byte("\xef\xbb\xbf"))
	// Servers may prefix a source map with )]}' to prevent its inclusion as a
	// script.
	if p = bytes.TrimLeft(p, " \t\r\n"); len(p) == 0 || p[0] != '{' && p[0] != ')' {
		return notSymbol("not JSON, as %s is", what)
	}
	return nil
}

// proguardNamespace is the namespace of the ids of Android mapping files: the
// version 5 UUID of "guardsquare.com" in the DNS namespace,
// 6ba7b810-9dad-11d1-80b4-00c04fd430c8.
var proguardNamespace = func() [16]byte {
	dns := [16]byte{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}
	sum := sha1.Sum(append(dns[:], "guardsquare.com"...))
	return uuid5(sum[:])
}()

// uuid5 converts a SHA-1 sum to a version 5 UUID (RFC 9562).
func uuid5(sum []byte) [16]byte {
	u := [16]byte(sum[:16])
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return u
}

// asProGuard identifies a mapping by the UUID of its bytes.
func (o *Object) asProGuard(r io.Reader) error {
	h := sha1.New()
	_, _ = h.Write(proguardNamespace[:]) // a hash never fails
	br := bufio.NewReaderSize(io.TeeReader(r, h), scanChunk)
	head, err := br.Peek(scanChunk)
	if err != nil && err != io.EOF {
		return err
	}
	// A class line: "original.Name -> a.b:".
	if !bytes.Contains(head, []byte(" -> ")) {
		return notSymbol("no mapping as ProGuard and R8 write it")
	}
	if _, err := io.Copy(io.Discard, br); err != nil {
		return err
	}
	o.Role, o.DebugID = symfile.Mapping, debugid.ID{GUID: uuid5(h.Sum(nil))}
	o.Features.Symtab = true
	return nil
}
