package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// readPEM returns the only block of a PEM file.
func readPEM(path, what string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%s is not a PEM file with %s; symdepot keygen makes a pair of keys", path, what)
	}
	return block.Bytes, nil
}

// ReadSignKey reads an ed25519 private key (PKCS #8, PEM).
func ReadSignKey(path string) (ed25519.PrivateKey, error) {
	der, err := readPEM(path, "a private key")
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := k.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s holds no ed25519 private key; symdepot keygen makes one", path)
	}
	return key, nil
}

// ReadVerifyKey reads an ed25519 public key (PKIX, PEM).
func ReadVerifyKey(path string) (ed25519.PublicKey, error) {
	der, err := readPEM(path, "a public key")
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKIXPublicKey(der)
	key, ok := k.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s holds no ed25519 public key; it is the file that ends in .pub", path)
	}
	return key, nil
}

// NewKeys writes a new pair of keys: the private key to path, the public key to
// path with ".pub" appended. Existing files are not replaced. After an error, neither
// key is left.
func NewKeys(path string) (err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	var made []string
	defer func() {
		if err != nil {
			for _, p := range made {
				err = errors.Join(err, os.Remove(p))
			}
		}
	}()
	for _, k := range []struct {
		path, what string
		der        []byte
		perm       os.FileMode
	}{{path, "PRIVATE KEY", secret, 0o600}, {path + ".pub", "PUBLIC KEY", open, 0o644}} {
		f, err := os.OpenFile(k.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, k.perm)
		if err != nil {
			return err
		}
		made = append(made, k.path)
		err = pem.Encode(f, &pem.Block{Type: k.what, Bytes: k.der})
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
