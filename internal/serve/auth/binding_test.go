package auth

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// gssChecksum is the checksum of a GSS-API proof (RFC 4121 section 4.1.1) with a
// channel binding.
func gssChecksum(bnd []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 16)
	b = append(b, bnd...)
	return binary.LittleEndian.AppendUint32(b, 0x3e)
}

// clientBinding is what a client that sees a certificate sends, written here a
// second time after RFC 5929 section 4 and RFC 2744 section 3.11.
func clientBinding(cert []byte) []byte {
	sum := sha256.Sum256(cert)
	data := append([]byte("tls-server-end-point:"), sum[:]...)
	var b []byte
	for range 4 { // type and length of both addresses
		b = append(b, 0, 0, 0, 0)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	md := md5.Sum(append(b, data...))
	return md[:]
}

func TestChannelBinding(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "test")
	dir := t.TempDir()
	cert, key, leaf := serverPair(t, a, dir)
	_, _, other := serverPair(t, a, t.TempDir())
	none := make([]byte, 16)
	for _, test := range []struct {
		name    string
		demand  bool
		overTLS bool
		cksum   []byte
		want    string // of the reason; empty: accepted
	}{
		{"bound to our certificate", false, true, gssChecksum(clientBinding(leaf.Raw)), ""},
		{"bound to our certificate, demanded", true, true, gssChecksum(clientBinding(leaf.Raw)), ""},
		{"bound to a server in between", false, true, gssChecksum(clientBinding(other.Raw)), "different TLS connection"},
		{"bound to a server in between, demanded", true, true, gssChecksum(clientBinding(other.Raw)), "different TLS connection"},
		{"not bound", false, true, gssChecksum(none), ""},
		{"not bound, demanded", true, true, gssChecksum(none), "channel_binding requires"},
		{"without a checksum, demanded", true, true, nil, "channel_binding requires"},
		{"a short checksum, demanded", true, true, gssChecksum(clientBinding(leaf.Raw))[:20], "channel_binding requires"},
		{"a proxy ends TLS", false, false, gssChecksum(clientBinding(other.Raw)), ""},
		{"plain HTTP, demanded", true, false, gssChecksum(clientBinding(leaf.Raw)), "channel_binding requires"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClock()
			kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
			g := newGate(t, Config{Now: c.now, Keytab: writeKeytab(t, kt, ""), RequireChannelBinding: test.demand}, nil)
			tc, err := NewTLS(TLSConfig{Cert: cert, Key: key}, g, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tc.Close()
			if _, err := tc.Config().GetCertificate(&tls.ClientHelloInfo{}); err != nil { // a handshake
				t.Fatal(err)
			}
			c.add(time.Second)
			b, _, _ := forge{kt: kt, cname: []string{"carol"}, cksum: test.cksum}.token(t, c)
			r := negotiate(b)
			if test.overTLS {
				r.TLS = &tls.ConnectionState{}
			}
			_, _, ch := g.Authenticate(r, "")
			switch {
			case test.want == "" && ch != nil:
				t.Errorf("refused: %+v, want it accepted", ch)
			case test.want != "" && (ch == nil || ch.Status != 401 || !strings.Contains(ch.Reason, test.want)):
				t.Errorf("answer %+v, want 401 with %q", ch, test.want)
			}
		})
	}
}
