package binding

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"testing"
)

// TestEndPoint computes bindings for each kind of signature.
func TestEndPoint(t *testing.T) {
	t.Parallel()
	raw := []byte("a certificate")
	s256, s384, s512 := sha256.Sum256(raw), sha512.Sum384(raw), sha512.Sum512(raw)
	for a, want := range map[x509.SignatureAlgorithm][]byte{
		x509.MD5WithRSA: s256[:], x509.SHA1WithRSA: s256[:], x509.ECDSAWithSHA256: s256[:], x509.SHA256WithRSAPSS: s256[:],
		x509.ECDSAWithSHA384: s384[:], x509.SHA512WithRSAPSS: s512[:], x509.PureEd25519: nil,
	} {
		got := EndPoint(&x509.Certificate{Raw: raw, SignatureAlgorithm: a})
		wanted := ""
		if want != nil {
			wanted = "tls-server-end-point:" + string(want)
		}
		if string(got) != wanted {
			t.Errorf("%v: binding %q, want %q", a, got, wanted)
		}
	}
}
