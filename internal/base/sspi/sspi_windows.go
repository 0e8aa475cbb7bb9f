package sspi

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	secur32         = windows.NewLazySystemDLL("secur32.dll")
	acquire         = secur32.NewProc("AcquireCredentialsHandleW")
	initialize      = secur32.NewProc("InitializeSecurityContextW")
	deleteContext   = secur32.NewProc("DeleteSecurityContext")
	freeCredentials = secur32.NewProc("FreeCredentialsHandle")
)

// Constants of sspi.h.
const (
	outbound       = 2       // SECPKG_CRED_OUTBOUND
	bufferToken    = 2       // SECBUFFER_TOKEN
	bufferBindings = 14      // SECBUFFER_CHANNEL_BINDINGS
	connection     = 0x800   // ISC_REQ_CONNECTION
	nativeData     = 0x10    // SECURITY_NATIVE_DREP
	continueNeeded = 0x90312 // SEC_I_CONTINUE_NEEDED
	maxToken       = 64 << 10
)

// handle is a SecHandle, buffer a SecBuffer, bufferList a SecBufferDesc.
type (
	handle struct{ lower, upper uintptr }
	buffer struct {
		size, kind uint32
		data       *byte
	}
	bufferList struct {
		version, count uint32
		buffers        *buffer
	}
)

// login is a security context of the package Negotiate.
type login struct {
	target      string
	bindings    []byte // a SEC_CHANNEL_BINDINGS; empty: none
	credentials handle
	context     handle
	begun       bool // context is valid
	done        bool // Windows expects no further token of the server
}

// begin gets the credentials of the current user.
func begin(host string, binding []byte) (Login, error) {
	for _, p := range []*windows.LazyProc{acquire, initialize, deleteContext, freeCredentials} {
		if err := p.Find(); err != nil {
			return nil, err
		}
	}
	name, err := windows.UTF16PtrFromString(scheme)
	if err != nil {
		return nil, err
	}
	l := &login{target: "HTTP/" + host}
	if len(binding) > 0 {
		l.bindings = applicationData(binding)
	}
	var expiry int64
	status, _, _ := acquire.Call(0, uintptr(unsafe.Pointer(name)), outbound, 0, 0, 0, 0,
		uintptr(unsafe.Pointer(&l.credentials)), uintptr(unsafe.Pointer(&expiry)))
	if status != 0 {
		return nil, failed("Kerberos credentials of the current user", status)
	}
	return l, nil
}

// Next implements [Login].
func (l *login) Next(challenge []byte) ([]byte, error) {
	if l.done || l.begun && len(challenge) == 0 {
		return nil, errors.New("the server refuses the ticket for " + l.target)
	}
	target, err := windows.UTF16PtrFromString(l.target)
	if err != nil {
		return nil, err
	}
	out := make([]byte, maxToken)
	b := buffer{size: maxToken, kind: bufferToken, data: &out[0]}
	list := bufferList{count: 1, buffers: &b}
	var old *handle
	var given []buffer
	if l.begun {
		old = &l.context
		given = append(given, buffer{size: uint32(len(challenge)), kind: bufferToken, data: &challenge[0]})
	}
	if len(l.bindings) > 0 {
		given = append(given, buffer{size: uint32(len(l.bindings)), kind: bufferBindings, data: &l.bindings[0]})
	}
	var theirs *bufferList
	if len(given) > 0 {
		theirs = &bufferList{count: uint32(len(given)), buffers: &given[0]}
	}
	var attributes uint32
	var expiry int64
	status, _, _ := initialize.Call(uintptr(unsafe.Pointer(&l.credentials)), uintptr(unsafe.Pointer(old)), uintptr(unsafe.Pointer(target)),
		connection, 0, nativeData, uintptr(unsafe.Pointer(theirs)), 0, uintptr(unsafe.Pointer(&l.context)),
		uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&attributes)), uintptr(unsafe.Pointer(&expiry)))
	runtime.KeepAlive(out)
	runtime.KeepAlive(challenge)
	runtime.KeepAlive(given)
	if status != 0 && status != continueNeeded {
		return nil, failed("a ticket for "+l.target, status)
	}
	l.begun, l.done = true, status == 0
	switch {
	case b.size > maxToken:
		return nil, fmt.Errorf("a ticket for %s: %d bytes are too many", l.target, b.size)
	case b.size == 0:
		return nil, errors.New("the server refuses the ticket for " + l.target)
	}
	return out[:b.size], nil
}

// Close implements [Login].
func (l *login) Close() {
	if l.begun {
		_, _, _ = deleteContext.Call(uintptr(unsafe.Pointer(&l.context)))
	}
	_, _, _ = freeCredentials.Call(uintptr(unsafe.Pointer(&l.credentials)))
}

// reasons are the usual values of SECURITY_STATUS of machines without a domain, of
// hosts outside of it, and of expired logins.
var reasons = map[uint32]string{
	0x80090303: "the domain has no service of this name (SEC_E_TARGET_UNKNOWN)",
	0x80090305: "this Windows has no package Negotiate (SEC_E_SECPKG_NOT_FOUND)",
	0x8009030C: "the login was refused (SEC_E_LOGON_DENIED)",
	0x8009030D: "the login of this user cannot be used (SEC_E_UNKNOWN_CREDENTIALS)",
	0x8009030E: "this user has none, because the login is not one of a domain (SEC_E_NO_CREDENTIALS)",
	0x80090311: "no domain controller answers (SEC_E_NO_AUTHENTICATING_AUTHORITY)",
	0x80090322: "the service has a different account (SEC_E_WRONG_PRINCIPAL)",
}

// failed is the error of a SECURITY_STATUS.
func failed(what string, status uintptr) error {
	if reason := reasons[uint32(status)]; reason != "" {
		return errors.New(what + ": " + reason)
	}
	return fmt.Errorf("%s: SECURITY_STATUS 0x%08X", what, uint32(status))
}
