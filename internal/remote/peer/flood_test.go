package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// TestFlood: somebody without the secret who opens as many connections as he can, and says
// nothing on them, keeps the other servers out of nothing: each address has a share of the
// connections that have proven nothing.
func TestFlood(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does a machine have 127.0.0.2 without being set up")
	}
	up := &upstream{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return nil, &fetch.Failure{Source: "up", Class: fetch.ClassNotFound}
	}}
	c := newCluster(t, 1, up, nil)
	node := c.servers[0].node
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	flood := func() {
		for range mostConns + 64 {
			conn, err := from.DialContext(t.Context(), "tcp", c.members[0].Address)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
	}
	flood()
	symtest.Await(t, 20*time.Second, "refused connections of the flood", func() bool { return node.Counts().Refused >= 64 })
	// Meanwhile another server asks, as often as one does that has many clients.
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			_, err := (member{node, c.members[0]}).Fetch(t.Context(), fetch.PeerAsk{Question: ask(t)})
			if err == nil || errors.Is(err, fetch.ErrNoPeer) {
				t.Errorf("a question during a flood: %v, want the answer that no upstream has the file", err)
			}
		})
	}
	all.Wait()
}

// TestImpostor: a server asks nobody who does not have the secret: what its clients look for
// is not told to whoever listens at the address of another server.
func TestImpostor(t *testing.T) {
	t.Parallel()
	_, other, err := configs(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other = other.Clone()
	other.VerifyConnection = nil
	bare := other.Clone()
	bare.Certificates, bare.ClientAuth = []tls.Certificate{other.Certificates[0]}, tls.NoClientCert
	old := other.Clone()
	old.NextProtos = nil
	for name, cfg := range map[string]*tls.Config{"another secret": other, "no client certificate": bare, "no protocol": old, "no TLS": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln := listen(t)
			defer ln.Close()
			heard := make(chan []byte, 1)
			go func() {
				raw, err := ln.Accept()
				if err != nil {
					heard <- nil
					return
				}
				defer raw.Close()
				conn := raw
				if cfg != nil {
					conn = tls.Server(raw, cfg)
				}
				_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
				b, _ := io.ReadAll(io.LimitReader(conn, 1<<16))
				heard <- b
			}()
			c := newCluster(t, 1, &upstream{}, nil)
			c.servers[0].node.opt.Reach = 2 * time.Second
			_, err := (member{c.servers[0].node, Member{"impostor", ln.Addr().String()}}).Run(t.Context(), "symcache", []byte("planted-module.pdb"))
			if !errors.Is(err, fetch.ErrNoPeer) {
				t.Errorf("an answer of an impostor: %v, want %v", err, fetch.ErrNoPeer)
			}
			c.servers[0].stop()
			if b := <-heard; cfg != nil && len(b) > 0 || bytes.Contains(b, []byte("planted")) {
				t.Errorf("the impostor heard %q, want nothing of the question", b)
			}
		})
	}
}
