package wire

// LoginPath is the path of the authorization server at which programs log in (OAuth 2.0,
// RFC 6749) below a server's base URL; with the base URL, it is the issuer. Whoever changes what is
// here breaks the login of the programs that are installed.
const LoginPath = "/-/oauth"

// LoginDiscovery is the path of a LoginMetadata below the issuer.
const LoginDiscovery = "/.well-known/oauth-authorization-server"

// LoginClient is the id of the only client, which is public (RFC 6749 section 2.1).
const LoginClient = "symdepot"

// LoginMachine is a parameter of an authorization request beside those of RFC 6749 and RFC 8628: what
// the program calls its machine.
const LoginMachine = "device_name"

// LoginMetadata says how programs log in (RFC 8414).
type LoginMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Responses     []string `json:"response_types_supported"`
	Modes         []string `json:"response_modes_supported"`
	Grants        []string `json:"grant_types_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	RevokeMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	// Iss says that the answer to a browser names the issuer (RFC 9207).
	Iss bool `json:"authorization_response_iss_parameter_supported"`
}

// LoginTokens is the answer of the token endpoint (RFC 6749 section 5.1).
type LoginTokens struct {
	Access         string `json:"access_token"`
	Type           string `json:"token_type"` // Bearer
	Expires        int64  `json:"expires_in"` // seconds
	Refresh        string `json:"refresh_token"`
	Name           string `json:"name"` // of whoever allowed the login
	Login          string `json:"login_id"`
	RefreshExpires int64  `json:"refresh_expires_in"` // seconds
}

// Members of LoginTokens beside those of RFC 6749, for clients that ask for them by name.
const (
	LoginName = "name"
	LoginID   = "login_id"
	LoginEnds = "refresh_expires_in"
)

// LoginFailure is an error of an endpoint (RFC 6749 section 5.2).
type LoginFailure struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}
