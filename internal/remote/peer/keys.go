package peer

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"time"
)

// protocol is the version of the questions and answers. Servers with different
// versions do not understand each other and download by themselves. A change of
// fetch.Question, fetch.File or of the numbers in them needs a new version.
const protocol = "symdepot-nodes/3"

// errStranger means that the other side does not have the depot's secret.
var errStranger = errors.New("the other side does not have the secret of the depot")

// configs returns the TLS configurations of both sides. The key of all servers is
// derived from the secret (HKDF, RFC 5869), so the handshake proves on both sides
// that the other one has the secret.
func configs(secret []byte) (client, server *tls.Config, err error) {
	if len(secret) < 16 {
		return nil, nil, errors.New("the secret is shorter than 16 bytes")
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "symdepot: key of the servers of a depot", ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public, _ := key.Public().(ed25519.PublicKey) // always is
	// Nothing but the key is checked, and the certificate is never stored.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, nil, err
	}
	verify := func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || s.NegotiatedProtocol != protocol {
			return errStranger
		}
		other, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
		if !ok || subtle.ConstantTimeCompare(other, public) != 1 {
			return errStranger
		}
		return nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol}, SessionTicketsDisabled: true,
		Certificates:     []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		ClientAuth:       tls.RequireAnyClientCert,
		VerifyConnection: verify,
		// There is no authority: verify compares the key.
		InsecureSkipVerify: true,
	}
	return config, config, nil
}
