# A browser for symdepot login: curl with cookies. PERSON signs in, BY openid (at an oidc-provider,
# whose forms have these names), ticket (Kerberos) or password, and gives the ANSWER allow or deny
# to the page that asks whether a program may log in.
#
#     PERSON=alice BY=openid ANSWER=allow COOKIES=FILE sh login-browser.sh ADDRESS
set -eu
page=$COOKIES.html

# open ARGUMENT... ADDRESS: opens a page; where it ended is in $at.
open() {
	at=$(curl -sS -L -b "$COOKIES" -c "$COOKIES" -H 'Accept: text/html' -o "$page" -w '%{url_effective}' "$@")
}

# link NAME TEXT: prints the first attribute NAME of the page whose value has TEXT.
link() {
	sed -n "s|.*$1=\"\([^\"]*$2[^\"]*\)\".*|\1|p" "$page" | sed 's/&amp;/\&/g' | head -n 1
}

open "$1"
case $at in
*/-/login\?*)
	site=${at%%/-/*}
	case $BY in
	ticket) open --negotiate -u : "$site$(link href /-/login/ticket)" ;;
	password) open -d "user=$PERSON" -d password=secret --data-urlencode "next=/-/${1#*/-/}" "$site/-/login" ;;
	openid)
		open "$site$(link href /-/login/oidc)"
		open -d prompt=login -d "login=$PERSON" -d password=x "$(link action /interaction/)"
		case $at in */interaction/*) open -d prompt=consent "$(link action /interaction/)" ;; esac
		;;
	esac
	;;
esac
[ "$at" = "$1" ] || {
	echo "after the sign-in the browser is at $at" >&2
	cat "$page" >&2
	exit 1
}
open -d "answer=$ANSWER" "$1"
