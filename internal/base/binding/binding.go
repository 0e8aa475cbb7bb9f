// Package binding computes channel bindings: values that tie an authentication to
// the TLS connection under it (RFC 5056). A man in the middle cannot forward a
// proof that is bound, because his own certificate differs.
package binding

import (
	"crypto"
	_ "crypto/sha512" // makes the hash functions available
	"crypto/x509"
)

// EndPoint returns the binding tls-server-end-point of a server's certificate (RFC
// 5929 section 4), with its prefix. It returns nil for signature algorithms
// without a defined binding.
func EndPoint(cert *x509.Certificate) []byte {
	h := digest(cert.SignatureAlgorithm)
	if h == 0 || !h.Available() {
		return nil
	}
	sum := h.New()
	sum.Write(cert.Raw)
	return sum.Sum([]byte("tls-server-end-point:"))
}

// digest returns the hash function of a certificate's signature, but SHA-256
// instead of MD5 or SHA-1 (RFC 5929 section 4.1). It is 0 for signatures without a
// hash function.
func digest(a x509.SignatureAlgorithm) crypto.Hash {
	switch a {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.SHA256WithRSA, x509.ECDSAWithSHA256, x509.SHA256WithRSAPSS:
		return crypto.SHA256
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		return crypto.SHA384
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		return crypto.SHA512
	}
	return 0
}
