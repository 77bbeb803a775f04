#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A small authority for a trial, and one certificate that serves agents and controllers alike:
#
#	certificates.sh FOLDER NAME-OR-ADDRESS ...    every name and address at which agents are dialled
#	kubectl -n weir create secret generic weir-agent-tls --from-file=FOLDER
#
# The authority's key stays in FOLDER.ca, beside the folder, and belongs into no secret.
set -eu

[ $# -ge 2 ] || {
	echo "usage: certificates.sh FOLDER NAME-OR-ADDRESS ..." >&2
	exit 2
}
folder=$1
shift
names=
for name; do
	case $name in
	*[!0-9.]*:* | *[!0-9.]*) case $name in
		*:*) kind=IP ;;
		*) kind=DNS ;;
		esac ;;
	*) kind=IP ;;
	esac
	names=$names${names:+,}$kind:$name
done

umask 077
mkdir -p "$folder" "$folder.ca"
if [ ! -e "$folder.ca/key.pem" ]; then
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=weir trial authority" \
		-keyout "$folder.ca/key.pem" -out "$folder/ca.pem" 2>/dev/null
fi
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=weir" \
	-keyout "$folder/key.pem" -out "$folder.ca/request.pem" 2>/dev/null
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n' "$names" >"$folder.ca/names"
openssl x509 -req -in "$folder.ca/request.pem" -CA "$folder/ca.pem" -CAkey "$folder.ca/key.pem" -CAserial "$folder.ca/serial" -CAcreateserial -days 90 \
	-extfile "$folder.ca/names" -out "$folder/cert.pem" 2>/dev/null
echo "$folder: cert.pem, key.pem and ca.pem for $names, 90 days"
