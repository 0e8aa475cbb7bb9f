package upstream

import (
	"errors"
	"net/url"
	"strings"
)

// Errors of GiveCredentials.
var (
	ErrNoPrivateServer    = errors.New("credentials were given, but no private server")
	ErrManyPrivateServers = errors.New("credentials were given for more than one private server")
)

// GiveCredentials sets the credentials of the only private server among the
// specs: a server that is not a preset. Secrets are never sent to a preset, and never
// to two hosts.
func GiveCredentials(specs []Spec, c Credentials) error {
	hosts := map[string]bool{}
	var private []int
	for i := range specs {
		u, err := url.Parse(specs[i].URL)
		if specs[i].Type != TypeHTTP || specs[i].Preset != "" || err != nil {
			continue
		}
		hosts[strings.ToLower(u.Host)] = true
		private = append(private, i)
	}
	switch len(hosts) {
	case 0:
		return ErrNoPrivateServer
	case 1:
	default:
		return ErrManyPrivateServers
	}
	for _, i := range private {
		specs[i].Credentials = c
	}
	return nil
}
