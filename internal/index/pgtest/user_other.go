//go:build !unix

package pgtest

import (
	"os/exec"
	"os/user"
)

// credential is the user that the server runs as: always that of the test.
type credential struct{}

func credentialOf(*user.User) (*credential, error) { return nil, nil }

func (c *credential) own(string) error { return nil }

func (c *credential) apply(*exec.Cmd) {}
