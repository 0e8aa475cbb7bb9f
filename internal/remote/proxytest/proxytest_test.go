package proxytest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo serves connections that return what they get, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// refused checks that the proxy resets new connections.
func refused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return // reset at once
	}
	defer c.Close()
	if got, err := say(t, c.(*net.TCPConn), "refused", long); got != "" || err == nil {
		t.Errorf("a connection that is to be refused answers %q, %v", got, err)
	}
}

// say sends a text and returns what comes back within a time.
func say(t *testing.T, c *net.TCPConn, text string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	b := make([]byte, len(text))
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

const long, short = 10 * time.Second, 100 * time.Millisecond

func TestFaults(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p)
	if got, err := say(t, c, "plain", long); got != "plain" {
		t.Fatalf("without a fault: %q, %v", got, err)
	}
	for name, f := range map[string]Fault{"black hole": {ToServer: true, ToClient: true}, "to the server": {ToServer: true}, "to the client": {ToClient: true}} {
		p.Set(f)
		if got, err := say(t, c, name, short); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %q, %v, want nothing", name, got, err)
		}
		p.Set(Fault{})
		_ = c.SetReadDeadline(time.Now().Add(long))
		b := make([]byte, len(name))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != name {
			t.Errorf("%s: %q arrives afterwards, %v, want its own name", name, b, err)
		}
	}
	p.Set(Fault{Delay: 50 * time.Millisecond})
	start := time.Now()
	if got, err := say(t, c, "delayed", long); got != "delayed" || time.Since(start) < 100*time.Millisecond {
		t.Errorf("delay: %q after %v, %v, want it after 100 ms", got, time.Since(start), err)
	}
	p.Set(Fault{Rate: 100_000})
	start = time.Now()
	if got, err := say(t, c, string(bytes.Repeat([]byte("r"), 20_000)), long); len(got) != 20_000 || time.Since(start) < 150*time.Millisecond {
		t.Errorf("rate: %d bytes after %v, %v, want 20000 after 200 ms", len(got), time.Since(start), err)
	}
	p.Set(Fault{CutAfter: 3})
	if got, err := say(t, c, "cut off", long); len(got) > 3 || err == nil {
		t.Errorf("cut after 3 bytes: %q, %v; want at most 3 bytes and an error", got, err)
	}
	p.Set(Fault{Refuse: true})
	refused(t, p)
	p.Set(Fault{})
	c = dial(t, p)
	if got, err := say(t, c, "again", long); got != "again" {
		t.Errorf(`after the faults: %q, %v; want "again"`, got, err)
	}
	if n := p.Cut(); n < 1 {
		t.Errorf("Cut: %d connections, want 1", n)
	}
	if got, err := say(t, c, "cut", long); got != "" || err == nil {
		t.Errorf("after Cut: %q, %v; want nothing and an error", got, err)
	}
}

func TestHalfOpen(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p)
	if got, err := say(t, c, "x", long); got != "x" {
		t.Fatalf(`say("x"): %q, error %v; want "x"`, got, err)
	}
	p.Set(Fault{HalfOpen: true})
	if err := c.CloseWrite(); err != nil { // the server ends the connection too
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(short))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("half open: %v, want no end", err)
	}
	p.Set(Fault{})
	_ = c.SetReadDeadline(time.Now().Add(long))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("afterwards: %v, want %v", err, io.EOF)
	}
}

// A proxy follows its server to another address.
func TestTarget(t *testing.T) {
	t.Parallel()
	p := New(t, "127.0.0.1:1")
	refused(t, p)
	p.Target(echo(t))
	if got, err := say(t, dial(t, p), "somebody", long); got != "somebody" {
		t.Errorf(`with a server: %q, %v; want "somebody"`, got, err)
	}
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
