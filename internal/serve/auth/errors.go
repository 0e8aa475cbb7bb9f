package auth

import (
	"errors"
	"fmt"
)

// errMaker is the error for a token whose maker may not use the server any more.
var errMaker = fmt.Errorf("%w: its maker may not use this server any more", errNoToken)

var (
	errPassword = errors.New("the user name or the password is wrong")
	errBusy     = errors.New("too many credentials are being verified")
)

var (
	errNoToken = errors.New("the token is unknown, revoked or expired")
	errStore   = errors.New("cannot read the tokens")
)

var (
	errSignIn    = errors.New("the sign-in has ended")
	errLoginGone = errors.New("the sign-in has ended: its credentials are not valid any more")
)
