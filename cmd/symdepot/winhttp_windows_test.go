package main

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// The functions of winhttp.dll, of Windows or of Wine, with which symsrv.dll asks servers.
var (
	winhttp                 = windows.NewLazySystemDLL("winhttp.dll")
	winHTTPOpen             = winhttp.NewProc("WinHttpOpen")
	winHTTPConnect          = winhttp.NewProc("WinHttpConnect")
	winHTTPOpenRequest      = winhttp.NewProc("WinHttpOpenRequest")
	winHTTPSendRequest      = winhttp.NewProc("WinHttpSendRequest")
	winHTTPReceiveResponse  = winhttp.NewProc("WinHttpReceiveResponse")
	winHTTPQueryHeaders     = winhttp.NewProc("WinHttpQueryHeaders")
	winHTTPQueryAuthSchemes = winhttp.NewProc("WinHttpQueryAuthSchemes")
	winHTTPSetCredentials   = winhttp.NewProc("WinHttpSetCredentials")
	winHTTPCloseHandle      = winhttp.NewProc("WinHttpCloseHandle")
)

const (
	winHTTPAuthBasic        = 1
	winHTTPQueryStatusCode  = 19
	winHTTPQueryFlagNumber  = 0x20000000
	winHTTPAuthTargetServer = 0
)

// wide is a pointer to a text in UTF-16.
func wide(t *testing.T, s string) uintptr {
	t.Helper()
	p, err := windows.UTF16PtrFromString(s)
	if err != nil {
		t.Fatal(err)
	}
	return uintptr(unsafe.Pointer(p))
}

// TestWinHTTPChallenge: WinHTTP finds Basic among the offers of a server that asks for
// credentials, is not disturbed by Bearer, and gets the file with a token as the password.
func TestWinHTTPChallenge(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SYMDEPOT_DEPOT", filepath.Join(dir, "depot"))
	runTool(t, nil, ".", "symdepot", "add", "--product", "app", "../../testdata/pdb/hello-x64.pdb")
	token := regexp.MustCompile(`sd_\S{43}`).FindString(runTool(t, nil, ".", "symdepot", "token", "new", "--name", "reader"))
	s, err := commandtest.StartServe(os.Getenv, dir, "--auth")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	handle := func(p *windows.LazyProc, args ...uintptr) uintptr {
		t.Helper()
		h, _, err := p.Call(args...)
		if h == 0 {
			t.Fatalf("%s: %v", p.Name, err)
		}
		return h
	}
	session := handle(winHTTPOpen, wide(t, "Microsoft-Symbol-Server/10.0"), 1, 0, 0, 0)
	defer func() { _, _, _ = winHTTPCloseHandle.Call(session) }()
	conn := handle(winHTTPConnect, session, wide(t, u.Hostname()), uintptr(port), 0)
	defer func() { _, _, _ = winHTTPCloseHandle.Call(conn) }()
	path := "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	for _, tt := range []struct {
		path, password string
		first, then    uint32
	}{{path, "", 401, 0}, {path, token, 401, 200}, {path, token + "x", 401, 401}, {"/t/" + token + path, "", 200, 0}, {path + "1", token, 401, 404}} {
		r := handle(winHTTPOpenRequest, conn, wide(t, "GET"), wide(t, tt.path), 0, 0, 0, 0)
		send := func() (status uint32) {
			t.Helper()
			handle(winHTTPSendRequest, r, 0, 0, 0, 0, 0, 0)
			handle(winHTTPReceiveResponse, r, 0)
			size := uint32(4)
			handle(winHTTPQueryHeaders, r, winHTTPQueryStatusCode|winHTTPQueryFlagNumber, 0, uintptr(unsafe.Pointer(&status)), uintptr(unsafe.Pointer(&size)), 0)
			return status
		}
		if got := send(); got != tt.first {
			t.Errorf("without credentials: status %d, want %d", got, tt.first)
		}
		if tt.first == 401 {
			var all, best, target uint32
			handle(winHTTPQueryAuthSchemes, r, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&best)), uintptr(unsafe.Pointer(&target)))
			if all != winHTTPAuthBasic || best != winHTTPAuthBasic || target != winHTTPAuthTargetServer {
				t.Errorf("the schemes are %#x, the best %#x, for %d; want Basic for the server", all, best, target)
			}
		}
		if tt.then != 0 {
			handle(winHTTPSetCredentials, r, winHTTPAuthTargetServer, winHTTPAuthBasic, wide(t, "anybody"), wide(t, tt.password), 0)
			if got := send(); got != tt.then {
				t.Errorf("with a password: status %d, want %d", got, tt.then)
			}
		}
		_, _, _ = winHTTPCloseHandle.Call(r)
	}
}
