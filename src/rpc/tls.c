// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rpc/tls_conn.h"

#define LOOK_NS NS_PER_S

/* What tells a file from the one that was there before; all 0: there is none. */
struct stamp {
	dev_t device;
	ino_t inode;
	off_t bytes;
	uint64_t changed_ns; /* ctime: a copy may bring its mtime along */
};

struct rpc_tls {
	SSL_CTX *context;
	BIO_METHOD *socket;
	char *cert, *key, *ca;
	struct stamp cert_stamp, key_stamp, ca_stamp;
	uint64_t looked_ns;
};

struct rpc_tls_conn {
	SSL *ssl;
	int fd;
	int why; /* errno of the last call on the socket */
	uint32_t wants;
};

/* The newest error of OpenSSL in words; the queue is left empty. */
static const char *ssl_reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return reason ? reason : "no reason given";
}

/* The socket, written to without SIGPIPE: OpenSSL's own BIO would raise it. */

static int socket_write(BIO *bio, const char *data, int length)
{
	struct rpc_tls_conn *conn = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	do {
		n = send(conn->fd, data, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	conn->why = n < 0 ? errno : 0;
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	return (int)n;
}

static int socket_read(BIO *bio, char *data, int room)
{
	struct rpc_tls_conn *conn = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	do {
		n = recv(conn->fd, data, (size_t)room, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	conn->why = n < 0 ? errno : 0;
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_read(bio);
	if (!n)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long socket_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *socket_method(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir");

	if (!method)
		return NULL;
	BIO_meth_set_write(method, socket_write);
	BIO_meth_set_read(method, socket_read);
	BIO_meth_set_ctrl(method, socket_ctrl);
	return method;
}

/* A server takes h2 and nothing else. */
static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_length,
	const unsigned char *in, unsigned int in_length, void *context)
{
	static const unsigned char h2[] = "\x02h2";

	(void)ssl;
	(void)context;
	if (SSL_select_next_proto((unsigned char **)out, out_length, h2, 3, in, in_length) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL's reason would be "system lib". */
static int can_read(const char *what, const char *file, struct err *e)
{
	return access(file, R_OK) ? err_set(e, errno, "cannot read the %s %s: %m", what, file) : 0;
}

static int context_load(SSL_CTX *context, const struct rpc_tls *tls, struct err *e)
{
	int ret = can_read("certificate", tls->cert, e);

	if (!ret)
		ret = can_read("private key", tls->key, e);
	if (!ret)
		ret = can_read("certificates of the authority", tls->ca, e);
	if (ret)
		return ret;
	if (SSL_CTX_use_certificate_chain_file(context, tls->cert) != 1)
		return err_set(
			e, EINVAL, "cannot read the certificate %s: %s", tls->cert, ssl_reason());
	if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) != 1)
		return err_set(e, EINVAL, "cannot read the private key %s for %s: %s", tls->key,
			tls->cert, ssl_reason());
	if (SSL_CTX_check_private_key(context) != 1)
		return err_set(e, EINVAL, "the private key %s does not belong to %s: %s", tls->key,
			tls->cert, ssl_reason());
	if (SSL_CTX_load_verify_locations(context, tls->ca, NULL) != 1)
		return err_set(e, EINVAL, "cannot read the certificates of the authority %s: %s",
			tls->ca, ssl_reason());
	return 0;
}

/* One context serves both roles. */
static int context_new(SSL_CTX **out, const struct rpc_tls *tls, struct err *e)
{
	SSL_CTX *context = SSL_CTX_new(TLS_method());
	int ret;

	if (!context)
		return err_set(e, ENOMEM, "cannot set up TLS: %s", ssl_reason());
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	/* HTTP/2 forbids the older ciphers of TLS 1.2: only those with forward secrecy and AEAD. */
	SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
	SSL_CTX_set_options(context,
		SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	/* HTTP/2 says itself where a stream ends: a cut that TLS did not announce hides nothing. */
	SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	/* A resumed session would skip the check of dates and of a new authority. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 0);
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_alpn_select_cb(context, choose_h2, NULL);
	ret = context_load(context, tls, e);
	if (ret) {
		SSL_CTX_free(context);
		return ret;
	}
	*out = context;
	return 0;
}

static bool stamp_differs(const char *file, struct stamp *stamp)
{
	struct stamp now = { 0 };
	struct stat st;
	bool differs;

	if (!stat(file, &st)) {
		now.device = st.st_dev;
		now.inode = st.st_ino;
		now.bytes = st.st_size;
		now.changed_ns = clock_timespec_ns(st.st_ctim);
	}
	differs = now.device != stamp->device || now.inode != stamp->inode ||
		  now.bytes != stamp->bytes || now.changed_ns != stamp->changed_ns;
	*stamp = now;
	return differs;
}

/* Before they are read, so that what changes meanwhile is seen the next time. */
static bool files_differ(struct rpc_tls *tls)
{
	bool cert = stamp_differs(tls->cert, &tls->cert_stamp);
	bool key = stamp_differs(tls->key, &tls->key_stamp);
	bool ca = stamp_differs(tls->ca, &tls->ca_stamp);

	tls->looked_ns = clock_ns();
	return cert || key || ca;
}

/* Take certificates that were renewed. Of a pair that is replaced one after the other the first does
 * not fit, which is said; the second is one more change. */
static void renew(struct rpc_tls *tls)
{
	SSL_CTX *context = NULL;
	struct err e = { 0 };

	if (clock_ns() - tls->looked_ns < LOOK_NS || !files_differ(tls))
		return;
	if (context_new(&context, tls, &e)) {
		log_warn("the certificates read before stay in use: %s", e.what);
		return;
	}
	SSL_CTX_free(tls->context); /* connections hold a reference of their own */
	tls->context = context;
}

int rpc_tls_new(struct rpc_tls **out, const struct rpc_tls_files *files, struct err *e)
{
	struct rpc_tls *tls;
	int ret = 0;

	*out = NULL;
	if (!files->cert || !files->key || !files->ca) {
		err_set(e, EINVAL, "TLS needs a certificate, its key and the authority");
		return err_hint(e, "give all three, or none and --insecure");
	}
	tls = calloc(1, sizeof(*tls));
	if (!tls)
		return err_set(e, ENOMEM, "cannot set up TLS: %m");
	tls->cert = strdup(files->cert);
	tls->key = strdup(files->key);
	tls->ca = strdup(files->ca);
	tls->socket = socket_method();
	if (!tls->cert || !tls->key || !tls->ca || !tls->socket)
		ret = err_set(e, ENOMEM, "cannot set up TLS: out of memory");
	if (!ret) {
		files_differ(tls);
		ret = context_new(&tls->context, tls, e);
	}
	if (ret) {
		rpc_tls_free(tls);
		return ret;
	}
	*out = tls;
	return 0;
}

void rpc_tls_free(struct rpc_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->socket);
	free(tls->cert);
	free(tls->key);
	free(tls->ca);
	free(tls);
}

/* The client's side: what the server's certificate must be made for. */
static int expect_name(SSL *ssl, const char *name, const struct sock_addr *addr)
{
	static const unsigned char h2[] = "\x02h2";
	char text[SOCK_ADDR_TEXT];

	SSL_set_connect_state(ssl);
	if (SSL_set_alpn_protos(ssl, h2, 3))
		return -ENOMEM;
	if (name)
		return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1
			       ? 0
			       : -EINVAL;
	sock_addr_text(addr, false, text);
	return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), text) == 1 ? 0 : -EINVAL;
}

int rpc_tls_conn_new(struct rpc_tls_conn **out, struct rpc_tls *tls, int fd, const char *name,
	const struct sock_addr *addr, struct err *e)
{
	struct rpc_tls_conn *conn = calloc(1, sizeof(*conn));
	BIO *bio;

	*out = NULL;
	if (!conn)
		return err_set(e, ENOMEM, "cannot set up TLS: %m");
	conn->fd = fd;
	renew(tls);
	conn->ssl = SSL_new(tls->context);
	bio = conn->ssl ? BIO_new(tls->socket) : NULL;
	if (!bio)
		goto failed;
	BIO_set_data(bio, conn);
	BIO_set_init(bio, 1);
	SSL_set_bio(conn->ssl, bio, bio);
	if (!name && !addr)
		SSL_set_accept_state(conn->ssl);
	else if (expect_name(conn->ssl, name, addr))
		goto failed;
	*out = conn;
	return 0;

failed:
	rpc_tls_conn_free(conn);
	return err_set(e, ENOMEM, "cannot set up TLS: %s", ssl_reason());
}

void rpc_tls_conn_free(struct rpc_tls_conn *conn)
{
	if (!conn)
		return;
	SSL_free(conn->ssl);
	free(conn);
}

uint32_t rpc_tls_conn_wants(const struct rpc_tls_conn *conn)
{
	return conn->wants;
}

/* What a call of OpenSSL that did not go through means. */
static int conn_failed(struct rpc_tls_conn *conn, int ret, struct err *e)
{
	int kind = SSL_get_error(conn->ssl, ret);
	long verify = SSL_get_verify_result(conn->ssl);

	conn->wants = kind == SSL_ERROR_WANT_WRITE ? EPOLLOUT : EPOLLIN;
	if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	if (kind == SSL_ERROR_ZERO_RETURN)
		return -EPIPE;
	if (conn->why)
		return err_set(e, conn->why, "the connection broke: %s", strerror(conn->why));
	if (verify != X509_V_OK)
		return err_set(e, EACCES, "the peer's certificate is not valid: %s",
			X509_verify_cert_error_string(verify));
	if (kind == SSL_ERROR_SYSCALL || !ERR_peek_last_error())
		return err_set(e, ECONNRESET, "the peer closed the connection");
	if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_WRONG_VERSION_NUMBER) {
		ERR_clear_error();
		return err_set(e, EPROTO, "the peer does not speak TLS: it has no certificates");
	}
	return err_set(e, EPROTO, "TLS failed: %s", ssl_reason());
}

int rpc_tls_conn_handshake(struct rpc_tls_conn *conn, struct err *e)
{
	const unsigned char *protocol;
	unsigned int length;
	int ret;

	ERR_clear_error();
	ret = SSL_do_handshake(conn->ssl);
	if (ret != 1)
		return conn_failed(conn, ret, e);
	SSL_get0_alpn_selected(conn->ssl, &protocol, &length);
	if (length != 2 || memcmp(protocol, "h2", 2))
		return err_set(e, EPROTO, "the peer does not speak HTTP/2 over TLS (ALPN h2)");
	if (!SSL_get0_peer_certificate(conn->ssl))
		return err_set(e, EACCES, "the peer showed no certificate");
	return 0;
}

ssize_t rpc_tls_conn_read(struct rpc_tls_conn *conn, void *data, size_t room, struct err *e)
{
	size_t n;
	int ret;

	ERR_clear_error();
	ret = SSL_read_ex(conn->ssl, data, room, &n);
	if (ret == 1)
		return (ssize_t)n;
	ret = conn_failed(conn, ret, e);
	return ret == -EPIPE ? 0 : ret;
}

ssize_t rpc_tls_conn_write(
	struct rpc_tls_conn *conn, const void *data, size_t length, struct err *e)
{
	size_t n;
	int ret;

	ERR_clear_error();
	ret = SSL_write_ex(conn->ssl, data, length, &n);
	return ret == 1 ? (ssize_t)n : conn_failed(conn, ret, e);
}

void rpc_tls_conn_bye(struct rpc_tls_conn *conn)
{
	ERR_clear_error();
	SSL_shutdown(conn->ssl);
	ERR_clear_error();
}
