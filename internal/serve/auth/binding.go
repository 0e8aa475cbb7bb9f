package auth

import (
	"crypto/md5" //nolint:gosec // RFC 4121 hashes channel bindings with MD5
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/symdepot/symdepot/internal/base/binding"
)

// A client may bind its Kerberos proof to its TLS connection, by a hash of the
// server's certificate (tls-server-end-point, RFC 5929 section 4). A man in the
// middle cannot forward such a proof, because his own certificate differs.

// bindingHash is the field Bnd of the GSS-API checksum (RFC 4121 section
// 4.1.1.2): MD5 of the channel bindings, all zero if the client sends none.
type bindingHash [md5.Size]byte

// endpointBinding returns the hash that clients send for a certificate. It
// returns false for signature algorithms without a defined binding.
func endpointBinding(cert *x509.Certificate) (bindingHash, bool) {
	data := binding.EndPoint(cert)
	if data == nil {
		return bindingHash{}, false
	}
	// Type and length of both addresses are zero; the length of the data
	// follows. All numbers are little-endian (RFC 4121 section 4.1.1.2).
	head := binary.LittleEndian.AppendUint32(make([]byte, 16), uint32(len(data)))
	return md5.Sum(append(head, data...)), true
}

// maxEndpoints limits the remembered certificates. Connections made with an
// earlier certificate may still be in use.
const maxEndpoints = 64

// endpoints remembers the channel bindings of the server's certificates. The
// zero value is empty. Its methods may be called by several goroutines.
type endpoints struct {
	mu   sync.Mutex
	last *tls.Certificate // the one added last
	list []bindingHash    // newest last
	// undefined is set once a certificate without a defined binding was used.
	undefined bool
}

// add records that a certificate was used.
func (e *endpoints) add(c *tls.Certificate) {
	if c == nil || len(c.Certificate) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c == e.last {
		return
	}
	e.last = c
	leaf := c.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return
		}
	}
	h, ok := endpointBinding(leaf)
	if !ok {
		e.undefined = true
		return
	}
	if i := slices.Index(e.list, h); i >= 0 {
		e.list = slices.Delete(e.list, i, i+1)
	}
	e.list = append(e.list, h)
	if len(e.list) > maxEndpoints {
		e.list = slices.Delete(e.list, 0, 1)
	}
}

// has reports whether a binding belongs to a certificate of this server. known
// says whether the bindings of all certificates are known.
func (e *endpoints) has(h bindingHash) (ours, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.list, h), !e.undefined && len(e.list) > 0
}

// sentBinding returns the binding in a proof, or false if the client sent none.
func sentBinding(proof *types.Authenticator) (bindingHash, bool) {
	// RFC 4121 section 4.1.1: length of Bnd, Bnd, flags.
	sum := proof.Cksum.Checksum
	if proof.Cksum.CksumType != chksumtype.GSSAPI || len(sum) < 24 || binary.LittleEndian.Uint32(sum) != md5.Size {
		return bindingHash{}, false
	}
	h := bindingHash(sum[4:20])
	return h, h != bindingHash{}
}

var (
	errBinding   = errors.New("the ticket is bound to a different TLS connection: a proxy between the client and this server terminates TLS")
	errNoBinding = errors.New("the ticket is not bound to the TLS connection, which auth.negotiate.channel_binding requires")
)
