// An OpenID provider for tests: `oidc-provider THIS-FILE`. It listens on a free port of this
// machine, prints its issuer, and ends when its input ends. Everybody signs in with a name; the
// claims of that person are at the user info endpoint, which is where the library puts them unless
// it is configured otherwise, and in the id token if OIDC_CLAIMS is id_token.
import { createServer } from 'node:http';

const { default: Provider } = await import(process.argv[2]);
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'symdepot',
      client_secret: 'geheim',
      application_type: 'native', // whose redirect URI may have any port
      redirect_uris: ['http://127.0.0.1/-/login/oidc/callback'],
      grant_types: ['authorization_code'],
      response_types: ['code'],
    }],
    scopes: ['openid', 'profile', 'email', 'groups'],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
    conformIdTokenClaims: process.env.OIDC_CLAIMS !== 'id_token',
    cookies: { keys: ['secret of a test'] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@corp.example`, email_verified: true, groups: [`team-of-${id}`] }),
    }),
  });
  server.on('request', provider.callback());
  console.log(`issuer ${issuer}`);
});
process.stdin.on('end', () => process.exit()).resume();
